package stateproc.vectors;

import java.math.BigDecimal;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.Vector;
import java.util.regex.Pattern;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/** JDK values through KryoSerializer: Kryo 2 until 1.20, Kryo 5 since 2.0. */
final class KryoValues {
    private static final Instant MOMENT = Instant.ofEpochSecond(1_700_000_000L, 123_456_789);

    private KryoValues() {}

    static void write(Vectors vectors) throws Exception {
        kryo(vectors, "String", Samples.STRINGS);
        kryo(vectors, "Integer", Samples.INTS);
        kryo(vectors, "Long", Samples.LONGS);
        kryo(vectors, "Float", Samples.FLOATS);
        kryo(vectors, "Double", Samples.DOUBLES);
        kryo(vectors, "BigInteger", Samples.BIG_INTEGERS);
        kryo(vectors, "other scalars", null, true, false, (byte) -1, (short) -2, (short) 300, 'c', '€');
        kryo(vectors, "BigDecimal", BigDecimal.ZERO, BigDecimal.ONE, BigDecimal.TEN, new BigDecimal("-12.345"),
                new BigDecimal("1E+300"), new BigDecimal("0.00"), new BigDecimal("123456789012345678901234567890.5"));
        kryo(vectors, "dates", new java.util.Date(0), new java.util.Date(1_600_000_000_123L), new java.sql.Date(86_400_000),
                new java.sql.Time(3_600_000), stamp());
        kryo(vectors, "dates before 1970", new java.util.Date(-1), new java.sql.Date(-86_400_000), new java.sql.Timestamp(-1));
        kryo(vectors, "LocalDate", LocalDate.EPOCH, LocalDate.of(2024, 2, 29), LocalDate.of(-5, 12, 31), LocalDate.MAX);
        kryo(vectors, "LocalTime", LocalTime.MIDNIGHT, LocalTime.MAX, LocalTime.of(10, 0), LocalTime.of(10, 15),
                LocalTime.of(1, 2, 3), LocalTime.of(1, 2, 3, 4_000_000), LocalTime.of(0, 0, 0, 1));
        kryo(vectors, "LocalDateTime", LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4), LocalDateTime.of(1, 1, 1, 0, 0));
        kryo(vectors, "Instant", Instant.EPOCH, MOMENT, Instant.ofEpochSecond(-1, 5));
        kryo(vectors, "Duration", Duration.ZERO, Duration.ofMillis(1_500), Duration.ofSeconds(-1, 5));
        kryo(vectors, "ZoneOffset", ZoneOffset.UTC, ZoneOffset.ofHours(2), ZoneOffset.ofHoursMinutesSeconds(-1, -2, -3));
        kryo(vectors, "ZoneId", ZoneId.of("Europe/Berlin"));
        kryo(vectors, "ZonedDateTime", ZonedDateTime.ofInstant(MOMENT, ZoneId.of("Europe/Berlin")),
                ZonedDateTime.ofInstant(MOMENT, ZoneOffset.UTC));
        kryo(vectors, "OffsetDateTime", MOMENT.atOffset(ZoneOffset.ofHours(2)));
        kryo(vectors, "other java.time", java.time.Year.of(2024), java.time.YearMonth.of(2024, 2),
                java.time.MonthDay.of(2, 29), java.time.Period.of(1, -2, 3), LocalTime.NOON.atOffset(ZoneOffset.UTC));
        kryo(vectors, "UUID", new UUID(0, 0), new UUID(1, -1), UUID.nameUUIDFromBytes(new byte[] {1}));
        kryo(vectors, "arrays", new byte[0], new byte[] {1, -1}, new int[] {1, -1, 1 << 30}, new long[] {1, -1, 1L << 60},
                new double[] {0.1, Double.NaN}, new float[] {1.5f}, new short[] {1, -300}, new char[] {'a', '€'},
                new boolean[] {true, false}, new String[] {"a", null, "é"}, new String[0]);
        kryo(vectors, "object arrays", new Integer[] {1, null, -1}, new Object[] {"a", 1, null, 2.5}, new int[][] {{1}, {}});
        collections(vectors);
        maps(vectors);
        kryo(vectors, "Optional", Optional.empty(), Optional.of("x"), Optional.of(7L));
        kryo(vectors, "Locale", Locale.ROOT, Locale.ENGLISH, Locale.GERMANY);
        kryo(vectors, "URI", URI.create("http://example.org/a?b=c#d"));
        kryo(vectors, "BitSet", new BitSet(), BitSet.valueOf(new long[] {5, 1L << 63}));
        kryo(vectors, "Enum", Scalars.Color.RED, Scalars.Color.ÜBER, Scalars.Shape.SQUARE);
        kryo(vectors, "EnumSet", EnumSet.of(Scalars.Color.RED, Scalars.Color.BLUE), EnumSet.noneOf(Scalars.Color.class));
        EnumMap<Scalars.Color, Integer> enums = new EnumMap<>(Scalars.Color.class);
        enums.put(Scalars.Color.GREEN, 1);
        kryo(vectors, "EnumMap", enums);
        pairs(vectors, "Pattern", Pattern.compile("a+b"), "a+b", Pattern.compile("x", Pattern.CASE_INSENSITIVE), "x");
        pairs(vectors, "text builders", new StringBuilder("built"), "built", new StringBuffer("é"), "é");
        pairs(vectors, "Class", String.class, "java.lang.String", Scalars.Color.class, Scalars.Color.class.getName());
        pairs(vectors, "Currency", java.util.Currency.getInstance("EUR"), "EUR");
        kryo(vectors, "Throwable", new IllegalStateException("broken"), new RuntimeException());
        pairs(vectors, "Atomic", new java.util.concurrent.atomic.AtomicInteger(5), 5,
                new java.util.concurrent.atomic.AtomicLong(-5), -5);
    }

    private static void collections(Vectors vectors) {
        List<Object> shared = new ArrayList<>(Arrays.asList("x"));
        List<Object> large = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            large.add("e" + i);
        }
        kryo(vectors, "ArrayList", new ArrayList<>(), list("a", "é", "b"), list("a", null), list((Object) null), list(1, -1, 300),
                list(1, null), list(1L, "mixed", 2.5, null, true), list(list(1), list(), list("x")), large,
                list(LocalDate.EPOCH, LocalDate.of(2024, 2, 29)));
        kryo(vectors, "ArrayList with back references", list(shared, shared), list("same", new ArrayList<>(shared), shared, shared));
        kryo(vectors, "other lists", new LinkedList<>(list("a", 1)), new Vector<>(list(1L)), new ArrayDeque<>(list("q", "r")));
        kryo(vectors, "Set", new HashSet<>(), new HashSet<>(list("b", "a")), new LinkedHashSet<>(list(3, 1, 2)), new TreeSet<>(list("b", "a")));
        kryo(vectors, "Arrays.asList", Arrays.asList("a", "b"), Arrays.asList(1, null), Arrays.asList("a", 1));
        kryo(vectors, "Collections", Collections.emptyList(), Collections.emptySet(), Collections.emptyMap(),
                Collections.singletonList("a"), Collections.singleton(1L), Collections.singletonMap("k", 1));
        kryo(vectors, "unmodifiable", Collections.unmodifiableList(list("a")));
        kryo(vectors, "List.of", List.of(), List.of("a"), List.of("a", "b"), List.of(1, 2, 3));
        kryo(vectors, "Set.of and Map.of", java.util.Set.of("a"), Map.of("k", 1), Map.of());
        kryo(vectors, "PriorityQueue", new java.util.PriorityQueue<>(list(3, 1, 2)));
    }

    private static void maps(Vectors vectors) {
        Map<Object, Object> map = new LinkedHashMap<>();
        map.put("a", 1);
        map.put("é", null);
        map.put("list", list("x", "y"));
        Map<Object, Object> outer = new LinkedHashMap<>();
        outer.put("same", map);
        outer.put("again", map);
        kryo(vectors, "Map", new HashMap<>(), new HashMap<>(map), map, outer, new TreeMap<>(Map.of("b", 2, "a", 1)),
                new java.util.concurrent.ConcurrentHashMap<>(Map.of("c", 3L)), new java.util.Hashtable<>(Map.of(1, 2)));
    }

    private static List<Object> list(Object... items) {
        return new ArrayList<>(Arrays.asList(items));
    }

    private static java.sql.Timestamp stamp() {
        java.sql.Timestamp stamp = new java.sql.Timestamp(1_600_000_000_123L);
        stamp.setNanos(123_456_789);
        return stamp;
    }

    /** A serializer for values of any class, named Kryo and what it holds. */
    private static void kryo(Vectors vectors, String name, Object... values) {
        vectors.attempt("Kryo " + name, () -> vectors.add("Kryo " + name, serializer(Object.class), values));
    }

    private static void pairs(Vectors vectors, String name, Object... valuesAndTrees) {
        vectors.attempt("Kryo " + name, () -> vectors.addPairs("Kryo " + name, serializer(Object.class), valuesAndTrees));
    }

    static TypeSerializer<?> serializer(Class<?> type) throws Exception {
        return serializer(type, Vectors.config());
    }

    static TypeSerializer<?> serializer(Class<?> type, Object config) throws Exception {
        return Reflect.create("org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer", type, config);
    }
}
