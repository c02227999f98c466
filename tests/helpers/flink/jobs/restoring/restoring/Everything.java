package restoring;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.util.Date;

/** A POJO whose fields are of every type that type extraction gives a serializer of its own, in every release. */
public class Everything {
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
    public Date date;
    public Instant instant;
    public byte[] bytes;
    public long[] longs;
    public String[] texts;
    public Integer[] numbers;
    public Shapes.Level level;
    public Shapes.Point point;
    public Shapes.Point[] points;

    public Everything() {}
}
