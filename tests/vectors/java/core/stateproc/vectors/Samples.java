package stateproc.vectors;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/** Hand-picked edges and seeded random values that several groups share. */
final class Samples {
    private static final long SEED = 42;
    private static final int RANDOM_VALUES = 12;

    private Samples() {}

    /** Strings of every length class of Flink's and Kryo's forms, ASCII and not. */
    static final Object[] STRINGS = strings();

    static final Object[] LONGS = numbers(
            Arrays.asList(0L, 1L, -1L, 127L, 128L, 16384L, 1L << 31, 1L << 53, Long.MAX_VALUE, Long.MIN_VALUE),
            new Random(SEED)::nextLong);

    static final Object[] INTS = numbers(
            Arrays.asList(0, 1, -1, 63, 64, -64, -65, 127, 128, 8191, 8192, 65536, Integer.MAX_VALUE, Integer.MIN_VALUE),
            new Random(SEED)::nextInt);

    static final Object[] DOUBLES = numbers(
            Arrays.asList(0.0, -0.0, 1.5, -1.0 / 3, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY,
                    Double.MAX_VALUE, Double.MIN_VALUE),
            new Random(SEED)::nextGaussian);

    static final Object[] FLOATS = numbers(
            Arrays.asList(0f, -0f, 1.5f, 0.1f, Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY,
                    Float.MAX_VALUE, Float.MIN_VALUE),
            new Random(SEED)::nextFloat);

    static final Object[] BIG_INTEGERS = bigIntegers();

    static Random random() {
        return new Random(SEED);
    }

    static String repeat(String unit, int times) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < times; i++) {
            text.append(unit);
        }
        return text.toString();
    }

    private static Object[] strings() {
        List<Object> list = new ArrayList<>(Arrays.asList("", "a", "ab", "é", "é€𝄞", "\u0000", "a\u0000b", "\"\\/\n\t",
                "\uD800", "x\uDC00y", "\uFFFF", "日本語テキスト", "𝄞𝄞"));
        for (int length : new int[] {3, 31, 32, 33, 63, 64, 65, 100, 126, 127, 128, 300}) {
            list.add(repeat("k", length));
        }
        for (int length : new int[] {32, 63, 64, 127}) {
            list.add(repeat("k", length - 1) + "é");
        }
        Random random = random();
        for (int i = 0; i < RANDOM_VALUES; i++) {
            StringBuilder text = new StringBuilder();
            for (int j = random.nextInt(40); j > 0; j--) {
                text.append((char) (random.nextInt() >>> 16 >>> random.nextInt(12)));
            }
            list.add(text.toString());
        }
        return list.toArray();
    }

    private static Object[] numbers(List<?> edges, java.util.function.Supplier<?> random) {
        List<Object> list = new ArrayList<>(edges);
        for (int i = 0; i < RANDOM_VALUES; i++) {
            list.add(random.get());
        }
        return list.toArray();
    }

    private static Object[] bigIntegers() {
        List<Object> list = new ArrayList<>(Arrays.asList(BigInteger.ZERO, BigInteger.ONE, BigInteger.TEN,
                new BigInteger("0"), new BigInteger("1"), new BigInteger("10"), BigInteger.ONE.negate(),
                BigInteger.valueOf(127), BigInteger.valueOf(128), BigInteger.valueOf(-128), BigInteger.valueOf(-129),
                BigInteger.valueOf(Long.MAX_VALUE), BigInteger.valueOf(Long.MIN_VALUE)));
        Random random = random();
        for (int bits : new int[] {16, 31, 32, 33, 63, 64, 65, 127, 128, 200, 1000}) {
            BigInteger value = new BigInteger(bits, random).setBit(bits - 1);
            list.add(value);
            list.add(value.negate());
        }
        return list.toArray();
    }
}
