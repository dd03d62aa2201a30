"""Made-up censuses for demos, tutorials and tests: any schema, any size, nobody real."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.practice.synth.made_up_people import Crowd, DrawnPeople, Population, people_together
    from topdown.practice.synth.made_up_tree import grow_tree, tree_capacity
    from topdown.practice.synth.people_for_areas import (
        people_fitted_to,
        people_of_plan,
        without_exact,
        write_people,
    )
    from topdown.practice.synth.profile import FacilityShape, LevelShape, Profile, load_profile
    from topdown.practice.synth.public_columns import facility_sizes, housing_of_schema, settle_facilities
    from topdown.practice.synth.repeatable_random import RepeatableRandom, apportion
    from topdown.practice.synth.write_census import SynthResult, synth

__getattr__ = lazy_face(__name__, __file__)
