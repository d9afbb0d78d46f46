"""For libraries that extend veery: the core's data types and all primitives."""

from veery.extend import backend as backend
from veery.extend import core as core
from veery.extend import linear_util as linear_util
from veery.extend import random as random
from veery.extend import source_info_util as source_info_util
