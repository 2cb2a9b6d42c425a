"""Which usage events were read lately: the first of a name counts, the oldest is forgotten, and no
payer knows how names are kept.
"""

from router.budgets.booked_usage import EventMemory


def test_the_lowest_sequence_of_a_name_is_its_first() -> None:
    memory = EventMemory()
    assert [memory.is_first("a", sequence) for sequence in (3, 3, 4, 2)] == [
        True,
        True,
        False,
        True,
    ]


def test_the_oldest_is_forgotten_first() -> None:
    memory = EventMemory(limit=2)
    for sequence, name in enumerate("abc", 1):
        assert memory.is_first(name, sequence)
    assert [memory.is_first(name, 9) for name in "bca"] == [False, False, True]


def test_names_are_hashed_under_a_key_of_each_memory() -> None:
    memories = [EventMemory(), EventMemory()]
    for memory in memories:
        memory.is_first("a", 1)
    assert memories[0]._first.keys() != memories[1]._first.keys()
