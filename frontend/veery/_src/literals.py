"""The types of numbers with a dtype, which JAX makes of Python's. There are none here: numbers stay what they are."""


class TypedInt(int):
    pass


class TypedFloat(float):
    pass


class TypedComplex(complex):
    pass
