package stateproc.vectors;

import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.EnumSerializer;
import org.apache.flink.types.ByteValue;
import org.apache.flink.types.BooleanValue;
import org.apache.flink.types.CharValue;
import org.apache.flink.types.DoubleValue;
import org.apache.flink.types.FloatValue;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.NullValue;
import org.apache.flink.types.ShortValue;
import org.apache.flink.types.StringValue;

/** Scalars, dates, big numbers, Value types, primitive arrays and enums of flink-core. */
final class Scalars {
    private static final String BASE = "org.apache.flink.api.common.typeutils.base.";
    private static final long[] MILLIS = {0, 1, -1, 999, 1_600_000_000_123L, -62_135_596_800_000L, 253_402_300_799_999L};

    private Scalars() {}

    enum Color { RED, GREEN, BLUE, ÜBER }

    enum Shape {
        ROUND { @Override int corners() { return 0; } },
        SQUARE { @Override int corners() { return 4; } };

        abstract int corners();
    }

    static void write(Vectors vectors) throws Exception {
        numbers(vectors);
        dates(vectors);
        values(vectors);
        arrays(vectors);
        vectors.add("Enum", new EnumSerializer<>(Color.class), (Object[]) Color.values());
        vectors.add("Enum with bodies", new EnumSerializer<>(Shape.class), (Object[]) Shape.values());
        vectors.attempt("Variant", () -> variants(vectors));
        vectors.attempt("Bitmap", () -> bitmaps(vectors));
    }

    private static void base(Vectors vectors, String name, Object... values) throws Exception {
        vectors.add(name, Reflect.constant(BASE + name + "Serializer", "INSTANCE"), values);
    }

    private static void numbers(Vectors vectors) throws Exception {
        base(vectors, "Boolean", true, false);
        base(vectors, "Byte", (byte) 0, (byte) 1, (byte) -1, Byte.MAX_VALUE, Byte.MIN_VALUE);
        base(vectors, "Short", (short) 0, (short) 1, (short) -1, (short) 255, Short.MAX_VALUE, Short.MIN_VALUE);
        base(vectors, "Int", Samples.INTS);
        base(vectors, "Long", Samples.LONGS);
        base(vectors, "Float", Samples.FLOATS);
        base(vectors, "Double", Samples.DOUBLES);
        base(vectors, "Char", 'a', '\0', 'é', '€', '\uD834', '\uFFFF');
        List<Object> strings = new ArrayList<>(Arrays.asList(Samples.STRINGS));
        strings.add(null);
        strings.add(Samples.repeat("é", 3000));
        base(vectors, "String", strings.toArray());
        List<Object> bigs = new ArrayList<>(Arrays.asList(Samples.BIG_INTEGERS));
        bigs.add(null);
        base(vectors, "BigInt", bigs.toArray());
        List<Object> decimals = new ArrayList<>();
        for (Object big : bigs) {
            for (int scale : new int[] {0, 3, -5, 38}) {
                decimals.add(big == null ? null : new BigDecimal((BigInteger) big, scale));
            }
        }
        decimals.addAll(Arrays.asList(BigDecimal.ZERO, BigDecimal.ONE, BigDecimal.TEN, new BigDecimal("0.00"),
                new BigDecimal("1E+300"), new BigDecimal("-12.345")));
        base(vectors, "BigDec", decimals.toArray());
        vectors.addPairs("Void", Reflect.constant(BASE + "VoidSerializer", "INSTANCE"), null, null);
    }

    private static void dates(Vectors vectors) throws Exception {
        List<Object> dates = new ArrayList<>(Arrays.asList((Object) null));
        List<Object> sqlDates = new ArrayList<>(dates);
        List<Object> times = new ArrayList<>(dates);
        List<Object> stamps = new ArrayList<>(dates);
        for (long millis : MILLIS) {
            dates.add(new java.util.Date(millis));
            sqlDates.add(new java.sql.Date(millis));
            times.add(new java.sql.Time(millis));
            java.sql.Timestamp stamp = new java.sql.Timestamp(millis);
            stamps.add(stamp.clone());
            stamp.setNanos(123_456_789);
            stamps.add(stamp);
        }
        base(vectors, "Date", dates.toArray());
        base(vectors, "SqlDate", sqlDates.toArray());
        base(vectors, "SqlTime", times.toArray());
        base(vectors, "SqlTimestamp", stamps.toArray());
        Object[] days = {null, LocalDate.of(1970, 1, 1), LocalDate.of(2024, 2, 29), LocalDate.of(1, 1, 1),
            LocalDate.of(9999, 12, 31), LocalDate.of(-5, 12, 31), LocalDate.of(0, 6, 15), LocalDate.MAX, LocalDate.MIN};
        Object[] clocks = {null, LocalTime.MIDNIGHT, LocalTime.MAX, LocalTime.of(10, 15), LocalTime.of(23, 59, 58),
            LocalTime.of(1, 2, 3, 4_000_000), LocalTime.of(1, 2, 3, 4_000), LocalTime.of(1, 2, 3, 7)};
        base(vectors, "LocalDate", days);
        base(vectors, "LocalTime", clocks);
        List<Object> both = new ArrayList<>(Arrays.asList((Object) null));
        for (int i = 1; i < clocks.length; i++) {
            both.add(LocalDateTime.of((LocalDate) days[i], (LocalTime) clocks[i]));
        }
        base(vectors, "LocalDateTime", both.toArray());
        base(vectors, "Instant", null, Instant.EPOCH, Instant.ofEpochMilli(5), Instant.ofEpochSecond(-1, 999_999_999),
                Instant.ofEpochSecond(1_700_000_000L, 123_456_789), Instant.parse("9999-12-31T23:59:59.999999999Z"),
                Instant.parse("0001-01-01T00:00:00Z"), Instant.MAX);
    }

    private static void values(Vectors vectors) throws Exception {
        pairs(vectors, "BooleanValue", BooleanValue::new, true, false);
        pairs(vectors, "ByteValue", ByteValue::new, (byte) 0, (byte) -1, Byte.MAX_VALUE);
        pairs(vectors, "ShortValue", ShortValue::new, (short) 0, (short) -1, Short.MIN_VALUE);
        pairs(vectors, "IntValue", IntValue::new, cast(Samples.INTS, Integer[].class));
        pairs(vectors, "LongValue", LongValue::new, cast(Samples.LONGS, Long[].class));
        pairs(vectors, "FloatValue", FloatValue::new, cast(Samples.FLOATS, Float[].class));
        pairs(vectors, "DoubleValue", DoubleValue::new, cast(Samples.DOUBLES, Double[].class));
        pairs(vectors, "CharValue", CharValue::new, 'a', '€', '\uD834');
        pairs(vectors, "StringValue", (String text) -> new StringValue(text), cast(Samples.STRINGS, String[].class));
        pairs(vectors, "NullValue", (Object none) -> NullValue.getInstance(), new Object[] {null});
    }

    @SafeVarargs
    private static <T> void pairs(Vectors vectors, String name, java.util.function.Function<T, Object> box, T... raw)
            throws Exception {
        List<Object> pairs = new ArrayList<>();
        for (T value : raw) {
            pairs.add(box.apply(value));
            pairs.add(Encode.value(value));
        }
        vectors.addPairs(name, Reflect.constant(BASE + name + "Serializer", "INSTANCE"), pairs.toArray());
    }

    private static <T> T[] cast(Object[] values, Class<T[]> type) {
        return Arrays.copyOf(values, values.length, type);
    }

    private static void arrays(Vectors vectors) throws Exception {
        Object[][] kinds = {
            {boolean.class, "Boolean", true, false, true}, {byte.class, "Byte", (byte) 1, (byte) -128},
            {short.class, "Short", (short) 1, (short) -1}, {char.class, "Char", 'a', '€', '\uD834'},
            {int.class, "Int", 1, -1, Integer.MIN_VALUE}, {long.class, "Long", 1L, -1L, Long.MIN_VALUE},
            {float.class, "Float", 1.5f, Float.NaN, -0f}, {double.class, "Double", 0.1, Double.NEGATIVE_INFINITY, -0.0},
        };
        for (Object[] kind : kinds) {
            Object full = Array.newInstance((Class<?>) kind[0], kind.length - 2);
            Object large = Array.newInstance((Class<?>) kind[0], 300);
            for (int i = 0; i < 300; i++) {
                Array.set(large, i, kind[2 + i % (kind.length - 2)]);
                if (i < kind.length - 2) {
                    Array.set(full, i, kind[2 + i]);
                }
            }
            TypeSerializer<?> serializer =
                    Reflect.constant(BASE + "array." + kind[1] + "PrimitiveArraySerializer", "INSTANCE");
            vectors.add(kind[1] + "PrimitiveArray", serializer, Array.newInstance((Class<?>) kind[0], 0), full, large);
        }
        String[] strings = cast(Samples.STRINGS, String[].class);
        vectors.add("StringArray", Reflect.<TypeSerializer<?>>constant(BASE + "array.StringArraySerializer", "INSTANCE"),
                new String[0], new String[] {"a", null, "", "é"}, strings);
    }

    private static void variants(Vectors vectors) throws Exception {
        Object builder = Reflect.callStatic("org.apache.flink.types.variant.Variant", "newBuilder");
        List<Object> pairs = new ArrayList<>();
        Object[] scalars = {true, (byte) 1, (short) 300, 70_000, 1L << 40, 1.5f, 0.1, "short", Samples.repeat("long", 20),
            new BigDecimal("12.345"), new byte[] {1, 2}, LocalDate.of(2024, 2, 29),
            LocalDateTime.of(2024, 2, 29, 1, 2, 3, 456_000), Instant.parse("2024-02-29T01:02:03.456789Z")};
        pairs.add(Reflect.call(builder, "ofNull"));
        pairs.add(null);
        for (Object scalar : scalars) {
            pairs.add(Reflect.call(builder, "of", scalar));
            pairs.add(Encode.value(scalar));
        }
        Object array = Reflect.call(builder, "array");
        Object object = Reflect.call(builder, "object");
        for (int i = 0; i < 4; i++) {
            Reflect.call(array, "add", (Object) pairs.get(2 * i));
        }
        Object list = Reflect.call(array, "build");
        List<Object> tree = Arrays.asList(null, true, (byte) 1, (short) 300);
        Reflect.call(object, "add", "list", list);
        Reflect.call(object, "add", "é", (Object) Reflect.call(builder, "of", "text"));
        pairs.addAll(Arrays.asList(list, tree, Reflect.call(object, "build"), Json.object("list", tree, "é", "text")));
        vectors.addPairs("Variant", Reflect.constant(BASE + "VariantSerializer", "INSTANCE"), pairs.toArray());
    }

    private static void bitmaps(Vectors vectors) throws Exception {
        List<Object> pairs = new ArrayList<>();
        int[] run = java.util.stream.IntStream.range(100, 10_000).toArray();
        for (int[] bits : new int[][] {{}, {0}, {1, 5, 70_000}, {Integer.MAX_VALUE}, {-1}, run}) {
            Object bitmap = Reflect.callStatic("org.apache.flink.types.bitmap.Bitmap", "fromArray", (Object) bits);
            List<Object> tree = new ArrayList<>();
            for (int bit : bits) {
                tree.add(Integer.toUnsignedLong(bit));
            }
            pairs.addAll(Arrays.asList(bitmap, bits == run ? Json.object("from", 100, "to", 10_000) : tree));
        }
        vectors.addPairs("Bitmap", Reflect.constant(BASE + "BitmapSerializer", "INSTANCE"), pairs.toArray());
    }
}
