"""The only code that opens confidential files: records in, noisy answers and exact statistics out."""
