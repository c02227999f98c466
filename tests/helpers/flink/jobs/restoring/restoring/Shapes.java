package restoring;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Objects;

/** Classes for type expressions, beside those of the fixtures' jobs. */
public final class Shapes {
    private Shapes() {}

    /** A POJO that can be a key. */
    public static class Point {
        public int x;
        public int y;

        public Point() {}

        @Override
        public boolean equals(Object other) {
            return other instanceof Point && x == ((Point) other).x && y == ((Point) other).y;
        }

        @Override
        public int hashCode() {
            return Objects.hash(x, y);
        }
    }

    /** An enum. */
    public enum Level {
        LOW,
        MIDDLE,
        HIGH
    }

    /** A POJO of numbers. */
    public static class Amounts {
        public long visits;
        public double amount;
        public Integer rank;

        public Amounts() {}
    }

    /** A POJO with a field of every type that has a serializer of its own in every release. */
    public static class Wide {
        public boolean flag;
        public byte tiny;
        public short small;
        public int number;
        public long big;
        public float ratio;
        public double exact;
        public char letter;
        public Boolean boxedFlag;
        public Byte boxedTiny;
        public Short boxedSmall;
        public Integer boxedNumber;
        public Long boxedBig;
        public Float boxedRatio;
        public Double boxedExact;
        public Character boxedLetter;
        public String text;
        public BigDecimal decimal;
        public BigInteger integer;
        public java.util.Date date;
        public Instant instant;
        public LocalDate day;
        public LocalTime time;
        public LocalDateTime moment;
        public byte[] bytes;
        public long[] longs;
        public double[] doubles;
        public String[] texts;
        public Level level;
        public Point point;

        public Wide() {}
    }
}
