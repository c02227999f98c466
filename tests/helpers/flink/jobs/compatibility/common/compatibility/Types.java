package compatibility;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Date;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** Classes that the old and the new job have alike. */
public final class Types {
    private Types() {}

    public enum Color {
        RED,
        GREEN,
        BLUE
    }

    public static class Addr {
        public String street;
        public int zip;
    }

    /** No default constructor: a generic type. */
    public static class Gen {
        private final int n;
        private final String s;

        public Gen(int n, String s) {
            this.n = n;
            this.s = s;
        }
    }

    public static class GenLong {
        private final long at;
        private final Long boxed;

        public GenLong(long at, Long boxed) {
            this.at = at;
            this.boxed = boxed;
        }
    }

    public static class GenDouble {
        private final double d;

        public GenDouble(double d) {
            this.d = d;
        }
    }

    public static class GenFloat {
        private final Float f;

        public GenFloat(Float f) {
            this.f = f;
        }
    }

    public static class GenShort {
        private final short s;

        public GenShort(short s) {
            this.s = s;
        }
    }

    public static class GenChar {
        private final char c;

        public GenChar(char c) {
            this.c = c;
        }
    }

    public static class GenBoolean {
        private final boolean b;
        private final byte y;

        public GenBoolean(boolean b, byte y) {
            this.b = b;
            this.y = y;
        }
    }

    public static class GenEnum {
        private final Color c;

        public GenEnum(Color c) {
            this.c = c;
        }
    }

    public static class GenList {
        private final List<String> l;

        public GenList(List<String> l) {
            this.l = l;
        }
    }

    public static class GenArray {
        private final int[] i;

        public GenArray(int[] i) {
            this.i = i;
        }
    }

    public static class GenBytes {
        private final byte[] b;

        public GenBytes(byte[] b) {
            this.b = b;
        }
    }

    public static class GenTexts {
        private final String[] t;

        public GenTexts(String[] t) {
            this.t = t;
        }
    }

    public static class GenBig {
        private final BigDecimal d;
        private final BigInteger i;

        public GenBig(BigDecimal d, BigInteger i) {
            this.d = d;
            this.i = i;
        }
    }

    public static class GenNested {
        private final Gen g;
        private final Addr a;

        public GenNested(Gen g, Addr a) {
            this.g = g;
            this.a = a;
        }
    }

    public static class GenDate {
        private final Date d;

        public GenDate(Date d) {
            this.d = d;
        }
    }

    public static class GenObject {
        private final Object o;

        public GenObject(Object o) {
            this.o = o;
        }
    }

    public record R1(String a, int b) {}

    public record RList(String a, List<String> l) {}

    public static class PFlat {
        public String a;
        public long b;
        public Double c;
    }

    public static class PList {
        public String name;
        public List<String> tags;
    }

    public static class PMap {
        public Map<String, Long> m;
        public int z;
    }

    public static class PSet {
        public Set<Integer> s;
        public String q;
    }

    public static class PCollection {
        public Collection<String> l;
    }

    public static class PIterable {
        public Iterable<String> l;
    }

    public static class PListPojo {
        public List<Addr> l;
    }

    public static class PListEnum {
        public List<Color> l;
    }

    public static class PListArray {
        public List<byte[]> l;
    }

    public static class PListGen {
        public List<Gen> l;
    }

    public static class PMapPojo {
        public Map<Color, Addr> m;
    }

    public static class PNestedList {
        public List<List<String>> l;
    }

    public static class PListTuple {
        public List<Tuple2<String, Integer>> l;
    }

    public static class PMapList {
        public Map<String, List<Integer>> m;
    }

    @SuppressWarnings("rawtypes")
    public static class PRawList {
        public List l;
    }

    public static class PWildList {
        public List<? extends Number> l;
    }

    public static class PArrayList {
        public ArrayList<String> l;
    }

    public static class PLinkedList {
        public LinkedList<String> l;
    }

    public static class PDeque {
        public Deque<String> l;
    }

    public static class PHashMap {
        public HashMap<String, Long> m;
    }

    public static class PTreeMap {
        public TreeMap<String, Long> m;
    }

    public static class PHashSet {
        public HashSet<String> s;
    }

    public static class PSortedMap {
        public SortedMap<String, Long> m;
    }

    public static class PPojoArr {
        public Addr[] a;
    }

    public static class PStrArr {
        public String[] a;
        public int[] i;
        public Long[] l;
    }

    public static class PEnum {
        public Color c;
        public int n;
    }

    public static class PBig {
        public BigDecimal d;
        public BigInteger i;
    }

    public static class PTime {
        public LocalDate d;
        public LocalTime t;
        public LocalDateTime dt;
        public Instant i;
    }

    public static class PDates {
        public Date d;
        public java.sql.Timestamp ts;
    }

    public static class PZoned {
        public ZonedDateTime z;
    }

    public static class PDuration {
        public Duration d;
    }

    public static class PUuid {
        public UUID u;
    }

    public static class PKryo {
        public Gen g;
        public int k;
    }

    public static class PObject {
        public Object o;
    }

    public static class POptional {
        public Optional<String> o;
    }

    public static class PRow {
        public Row r;
    }

    public static class PTuple {
        public Tuple2<String, Integer> t;
    }

    public static class PEither {
        public Either<String, Long> e;
    }

    public static class PNested {
        public Addr a;
        public Addr b;
    }

    public static class PBoxed {
        public Integer i;
        public Boolean b;
        public Character c;
        public Short s;
        public Byte y;
        public Float f;
    }
}
