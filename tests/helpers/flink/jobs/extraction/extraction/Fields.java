package extraction;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Date;
import java.util.Deque;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentMap;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** A class with a field of every kind of type that people put into POJOs, and the classes that they mention. */
@SuppressWarnings({"rawtypes", "checkstyle:all"})
public class Fields {
    public List<Integer> listInteger;
    public List<Long> listLong;
    public List<BigDecimal> listBigDecimal;
    public List<String> listString;
    public List<Boolean> listBoolean;
    public List<Double> listDouble;
    public List<Addr> listPojo;
    public List<Addr[]> listPojoArray;
    public List<String[]> listStringArray;
    public List<byte[]> listBytes;
    public List<LocalDate> listLocalDate;
    public List<Instant> listInstant;
    public List<UUID> listUuid;
    public List<Color> listEnum;
    public List<Tuple2<String, Integer>> listTuple;
    public List<Gen> listGeneric;
    public List<Object> listObject;
    public List<Set<String>> listSet;
    public List<Map<String, String>> listMap;
    public List<Date> listDate;
    public List<Rec> listRecord;
    public Set<String> setString;
    public Set<Integer> setInteger;
    public Set<Long> setLong;
    public Set<Addr> setPojo;
    public Set<Color> setEnum;
    public Set<UUID> setUuid;
    public Map<Integer, String> mapIntegerString;
    public Map<String, BigDecimal> mapStringBigDecimal;
    public Map<Long, Addr> mapLongPojo;
    public Map<UUID, Instant> mapUuidInstant;
    public Map<String, Object> mapStringObject;
    public Map<String, byte[]> mapStringBytes;
    public Map<Addr, Color> mapPojoEnum;
    public Collection<Long> collectionLong;
    public Iterable<String> iterable;
    public Deque<String> deque;
    public Queue<String> queue;
    public SortedSet<String> sortedSet;
    public NavigableMap<String, Long> navigableMap;
    public ConcurrentMap<String, Long> concurrentMap;
    public LinkedHashMap<String, Long> linkedHashMap;
    public TreeMap<String, Long> treeMap;
    public HashSet<String> hashSet;
    public LinkedList<String> linkedList;
    public EnumMap<Color, Long> enumMap;
    public Map rawMap;

    // Further variants.
    public List rawList;
    public List<?> listWildcard;
    public List<? extends Addr> listExtends;
    public List<? super Integer> listSuper;
    public Map<String, ?> mapWildcard;
    public Map<? extends String, Long> mapExtends;
    public Set<? extends String> setExtends;
    public List<Map> listRawMap;
    public List<ArrayList> listRawArrayList;
    public List<Row> listRow;
    public List<int[]> listInts;
    public List<Integer[]> listIntegers;
    public List<List<String>[]> listGenericArray;
    public List<Holder<String>> listHolder;
    public List<Holder> listRawHolder;
    public List<Short> listShort;
    public List<Character> listCharacter;
    public List<Byte> listByte;
    public List<Float> listFloat;
    public List<BigInteger> listBigInteger;
    public List<java.sql.Timestamp> listSqlTimestamp;
    public List<Nested> listNested;
    public List<Outer> listOuter;
    public List<Empty> listEmpty;
    public List<Abstract> listAbstract;
    public List<Face> listInterface;
    public Collection<Addr> collectionPojo;
    public Collection<Integer> collectionInteger;
    public Iterable<Color> iterableEnum;
    public Map<Color, List<String>> mapEnumList;
    public Map<Color, Integer> mapEnumInteger;
    public Map<String, String[]> mapStringStrings;
    public Map<String, Gen> mapStringGeneric;
    public Set<Gen> setGeneric;
    public Set<byte[]> setBytes;
    public Set<Instant> setInstant;
    public Addr pojo;
    public Nested nested;
    public Outer outer;
    public Gen generic;
    public Rec record;
    public PrivateRec privateRecord;
    public Color color;
    public Empty empty;
    public Abstract abstractPojo;
    public Face face;
    public Holder<String> holderString;
    public Holder<Integer> holderInteger;
    public Holder<Holder<String>> holderHolder;
    public Holder<?> holderWildcard;
    public Holder rawHolder;
    public Sub subHolder;
    public Node node;
    public Tuple2<String, Integer> tuple;
    public Tuple2<String, List<Integer>> tupleList;
    public Tuple3<Addr, Color, byte[]> tuplePojo;
    public Tuple2<Tuple2<Long, Long>, String> tupleTuple;
    public Tuple2 rawTuple;
    public Tuple2<?, String> tupleWildcard;
    public Tuple2<Gen, Object> tupleGeneric;
    public Tuple2<String, Integer>[] tupleArray;
    public NamedTuple namedTuple;
    public WideTuple wideTuple;
    public Either<String, Integer> either;
    public Row row;
    public String[] strings;
    public Integer[] integers;
    public int[] ints;
    public byte[] bytes;
    public char[] chars;
    public boolean[] booleans;
    public BigDecimal[] decimals;
    public Addr[] pojos;
    public Color[] colors;
    public Gen[] generics;
    public String[][] strings2;
    public int[][] ints2;
    public List<String>[] lists;
    public Map<String, Integer>[] maps;
    public Holder<String>[] holders;
    public Object[] objects;
    public LocalDate[] dates;
    public Instant[] instants;
    public Optional<String> optional;
    public Object object;
    public Number number;
    public Class<?> type;
    public Void nothing;
    public LocalDateTime localDateTime;
    public Duration duration;
    public Date date;
    public java.sql.Date sqlDate;
    public java.sql.Time sqlTime;
    public java.sql.Timestamp sqlTimestamp;
    public Instant instant;
    public BigInteger bigInteger;
    public boolean primitiveBoolean;
    public char primitiveChar;
    public Character character;
    public Short boxedShort;

    public Fields() {}

    public static class Addr {
        public String street;
        public int zip;

        public Addr() {}
    }

    public enum Color {
        RED,
        GREEN
    }

    public static class Gen {
        public int n;
        public String s;

        public Gen(int n) {
            this.n = n;
        }
    }

    public record Rec(String a, int b) {}

    record PrivateRec(String a, int b) {}

    public static class Nested {
        public List<Integer> numbers;
        public Map<String, Addr> places;
        public Addr place;

        public Nested() {}
    }

    public static class Outer {
        public List<Nested> all;
        public Set<Nested> some;

        public Outer() {}
    }

    public static class Empty {
        public Empty() {}
    }

    public abstract static class Abstract {
        public int a;

        public Abstract() {}
    }

    public interface Face {}

    public static class Holder<T> {
        public T one;
        public List<T> many;
        public Map<String, T> named;
        public T[] array;
        public Tuple2<T, T> pair;
        public List<String> texts;

        public Holder() {}
    }

    public static class Sub extends Holder<Long> {
        public int more;

        public Sub() {}
    }

    public static class Node {
        public Node next;
        public Node[] others;
        public int n;

        public Node() {}
    }

    public static class NamedTuple extends Tuple2<String, Long> {
        public NamedTuple() {}
    }

    public static class WideTuple extends Tuple2<String, Long> {
        public int more;

        public WideTuple() {}
    }
}
