"""The decode VM's instruction set, its registers and its outcomes: plain ints, shared by builder and kernel.

An instruction is an opcode followed by its operands, all in one int32 array. ``col`` operands name a column of
the output, -1 to read without keeping. ``fill`` operands point into the null-fill table, ``pc`` operands into
the program.
"""

from __future__ import annotations

# --- rows and ranges -------------------------------------------------------------------------------------
ROW_END = 0  #                                  the row is complete
SEGMENT = 1  # k                                the current range is complete; go on in range k of the row
SKIP = 2  # n                                   skip n bytes
SKIP_REST = 3  #                                skip to the end of the range
EXPECT = 4  # byte                              one byte of this value
MARK = 5  # col                                 keep the position (i64)
PUSH_POS = 6  #                                 remember the position
LENGTH_SUFFIX = 7  #                            pop; the distance as Flink's little-endian length follows
SPAN = 8  # len_col data_col                    pop; keep the bytes since then
JUMP = 9  # pc
# --- scalars ---------------------------------------------------------------------------------------------
F1 = 10  # col
F2 = 11  # col                                  big-endian
F4 = 12  # col
F8 = 13  # col
L2 = 14  # col                                  little-endian
L4 = 15  # col
L8 = 16  # col
BOOL = 17  # col                                0 or 1, anything else is damage
PUT1 = 18  # col value
PUT4 = 19  # col value
VARINT = 20  # col width kind                   see VARINT_*
# --- strings and bytes -----------------------------------------------------------------------------------
FLINK_STRING = 21  # len_col data_col form              StringValue: length + bias as varint, varint UTF-16 units
MODIFIED_UTF8 = 22  # len_col data_col                   DataOutput.writeUTF
BYTES = 23  # len_col data_col kind n           see LENGTH_*
NUMBERS = 24  # len_col data_col width          i32 count, count x width bytes, kept as they are
# --- nulls and choices -----------------------------------------------------------------------------------
NULL_IF = 25  # byte fill pc pad                one byte 0/1; if it is ``byte``: fill, skip pad (-1: rest), jump
FILL = 26  # fill
SWITCH = 27  # kind n default (value pc)*n      kind: bytes of the tag (1, 4) or 0 for the register
SWITCH_NAME = 28  # n default (name pc)*n       a UTF string against the name table; default: not passed
# --- counted loops: READ_COUNT, LOOP, body, NEXT -----------------------------------------------------------
READ_COUNT = 29  # kind
LOOP = 30  # len_col min_size pc                push the register as a counter; 0: keep 0 and jump
NEXT = 31  # len_col pc                         once more from pc, or keep the count and go on
BLOCKS = 32  #                                  push an Avro block counter
BLOCK_NEXT = 33  # len_col min_size pc          next item, or at the end keep the count and jump
DELIMITED = 34  #                               push a counter of items up to the end of the range
DELIMITED_NEXT = 35  # len_col pc               next item after a ',', or at the end keep the count and jump
# --- null masks --------------------------------------------------------------------------------------------
MASK = 36  # n_bytes                            push the position of a mask; -1: one bit per register count
MASK_BIT = 37  # i fill pc                      bit i (most significant first) set: fill and jump
MASK_KIND = 38  # col                           keep bits 0 and 1 as a RowKind
MASK_LOOP_BIT = 39  # fill pc                   as MASK_BIT with the counter of the loop inside the mask
POP = 40  # n
# --- Table API binary rows, arrays and maps (little-endian) ----------------------------------------------------
ENTER = 41  # kind                              a sub-range, see ENTER_*
LEAVE = 42  #
HEADER = 43  # n                                the range has a fixed part of n bytes
SLOT = 44  # bit offset fill pc                 null bit set: fill and jump; else to the slot
ARRAY = 45  # elem_size len_col                 push an element counter
ARRAY_NEXT = 46  # elem_size fill len_col pc    to the next non-null element, or keep the count and jump
# --- host calls ---------------------------------------------------------------------------------------------
HOST = 47  # id col                             stop: a Python function reads this value
CONSTANT = 48  # len_col data_col byte         keep one byte that the input does not hold
RANGE_END = 49  #                               the range must be complete
MARKED_NUMBER = 50  # byte valid col width      null mark as in NULL_IF, then a big-endian number unless null

# --- Kryo: what these do not know goes to the host; see kryo_kernels ------------------------------------------
KRYO_BEGIN = 51  # table first stop pc         a value begins; on failure: columns first..stop taken back, jump
KRYO_END = 52  # whole                          the value is complete; ``whole``: and so is the range
KRYO_CLASS = 53  #                              a class reference; its code goes to the register
KRYO_MARK = 54  # fill pc                       a reference mark: null: fill, jump (pc -1: no null allowed)
KRYO_STRING = 55  # len_col data_col form       a reference mark and a string; form: 1: nullable
KRYO_COUNT = 56  # flagged fill null_pc flag_pc  Kryo 5: a count plus one; 0: fill, jump; flag set: jump
KRYO_JSON = 57  # len_col data_col version text  an object by class as JSON; ``text``: null is text, too
KRYO_TIME = 58  # col                           Kryo 5: a LocalTime; nanoseconds of the day
PUSH_COUNT = 59  #                              keep the register
POP_COUNT = 60  #

# Added to the form of a string op (its bias, whether it is nullable): lone surrogates are kept, which is no UTF-8.
KEEP_SURROGATES = 2
VARINT_U32, VARINT_Z32, VARINT_U64, VARINT_Z64 = 0, 1, 2, 3
# LENGTH_TAG_MINUS_4: the last SWITCH's tag less four, as in BigIntSerializer.
# LENGTH_REST_BUT: up to n bytes before the end of the range.
LENGTH_I32, LENGTH_U16, LENGTH_REST, LENGTH_FIXED, LENGTH_TAG_MINUS_4, LENGTH_REST_BUT = 0, 1, 2, 3, 4, 5
LENGTH_REGISTER = 6
COUNT_I32, COUNT_U16, COUNT_VARINT = 0, 1, 2
# ENTER_HALF: the position is after the low half of a slot whose high half is the offset of 8 bytes.
ENTER_I32, ENTER_LE32, ENTER_REST, ENTER_SLOT, ENTER_SLOT_OR_INLINE, ENTER_HALF = 0, 1, 2, 3, 4, 5

# --- registers (the state array) ------------------------------------------------------------------------------
# RANGE_BUDGET: how many bytes of sub-ranges the current range may still point at, see ENTER.
ROW, PC, POS, END, SP, BASE, COUNT, AUX, NEED, STARTED, ROW_POS, RANGE_BUDGET = range(12)
# Where to go when a Kryo value cannot be read (0: none is being read), and what to take back then.
GUARD, GUARD_POS, GUARD_SP, GUARD_FIRST, GUARD_STOP = range(12, 17)
REGISTERS = 24
STACK_WORDS = 4096

# --- outcomes ---------------------------------------------------------------------------------------------------
RUNNING, DONE, GROW, CALL_HOST = 0, 1, 2, 3
SHORT, LEFTOVER, BAD_MARK, BAD_COUNT, BAD_STRING, BAD_TAG, BAD_OFFSET, TOO_DEEP = 4, 5, 6, 7, 8, 9, 10, 11
RETRY = 12  # the value in hand goes to the host

MESSAGES = {
    SHORT: "the value needs more bytes than there are",
    LEFTOVER: "bytes are left over after the value",
    BAD_MARK: "a mark that must be 0 or 1 has another value",
    BAD_COUNT: "an impossible count",
    BAD_STRING: "not a valid string",
    BAD_TAG: "a tag stands for no known choice",
    BAD_OFFSET: "an offset points outside of its row",
    TOO_DEEP: "values are nested too deep",
}
