# What the compiler of kernels reads in place of the names in arrays.py. True and False are bytes.
ctypedef long long Whole

ctypedef const long long[::1] Ints
ctypedef const double[::1] Floats
ctypedef const unsigned char[::1] Bools
ctypedef const unsigned char[::1] Bytes
ctypedef const int[::1] Shorts
ctypedef const long long[:, ::1] IntTable
ctypedef const unsigned char[:, ::1] BoolTable
ctypedef const float[:, ::1] SingleTable
ctypedef const int[:, ::1] ShortTable
ctypedef const double[:, ::1] FloatTable
ctypedef const double[:, :, ::1] FloatStack

ctypedef unsigned char[::1] BytesOut
ctypedef int[::1] ShortsOut
ctypedef long long[::1] IntsOut
ctypedef long long[:, ::1] IntTableOut
ctypedef double[::1] FloatsOut
ctypedef double[:, ::1] FloatTableOut
ctypedef unsigned char[:, ::1] BoolTableOut
ctypedef fused NumbersOut:
    long long[::1]
    double[::1]
