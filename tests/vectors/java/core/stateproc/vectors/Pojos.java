package stateproc.vectors;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple2;

/** POJOs: nulls, nesting, generic fields, subclasses registered, seen before the snapshot and not seen. */
public final class Pojos {
    private Pojos() {}

    /** The record of the benchmarks. */
    public static class Simple {
        public String name;
        public long count;
        public double score;

        public Simple() {}

        Simple(String name, long count, double score) {
            this.name = name;
            this.count = count;
            this.score = score;
        }
    }

    /** One field of every scalar type. */
    public static class Scalar {
        public boolean truth;
        public byte tiny;
        public short small;
        public int number;
        public long large;
        public float ratio;
        public double precise;
        public char letter;
        public Boolean boxedTruth;
        public Byte boxedTiny;
        public Short boxedSmall;
        public Integer boxedNumber;
        public Long boxedLarge;
        public Float boxedRatio;
        public Double boxedPrecise;
        public Character boxedLetter;
        public String text;
        public java.util.Date date;
        public java.sql.Timestamp stamp;
        public BigDecimal decimal;
        public java.math.BigInteger integer;
        public Scalars.Color color;
        public byte[] bytes;
        public int[] ints;
        public String[] strings;
        public Integer[] boxes;
    }

    /** Fields that are POJOs, tuples, collections or unknown to the type system. */
    public static class Nested {
        public Simple simple;
        public Nested next;
        public Tuple2<String, Integer> pair;
        public List<String> list;
        public Map<String, Integer> map;
        public java.util.Set<Long> set;
        public List<Simple> simples;
        public Simple[] array;
        public LocalDate day;
        public Instant moment;
        public Object anything;
    }

    /** A generic field whose type is bound where it is used. */
    public static class Box<T> {
        public T content;
        public int size;
    }

    public static class Animal {
        public String name;

        public Animal() {}
    }

    public static class Cat extends Animal {
        public int lives;
    }

    public static class Dog extends Animal {
        public Double weight;
        public Animal friend;
    }

    /** Not a POJO: no public constructor without arguments. */
    public static class Fish extends Animal {
        public int depth;

        Fish(int depth) {
            this.depth = depth;
        }
    }

    static void write(Vectors vectors) throws Exception {
        List<Object> simples = new ArrayList<>(Arrays.asList(null, new Simple("a", 1, 1.5), new Simple(null, -1, Double.NaN)));
        Random random = Samples.random();
        for (int i = 0; i < 20; i++) {
            simples.add(new Simple("name-" + random.nextInt(), random.nextLong(), random.nextGaussian()));
        }
        vectors.add("Pojo", Vectors.serializer(Types.POJO(Simple.class)), simples.toArray());
        vectors.add("Pojo of scalars", Vectors.serializer(Types.POJO(Scalar.class)), new Scalar(), full());
        vectors.attempt("Pojo nested", () -> vectors.add(
                "Pojo nested", Vectors.serializer(Types.POJO(Nested.class)), new Nested(), nested(), collections()));
        Box<String> text = new Box<>();
        text.content = "é";
        Box<String> empty = new Box<>();
        vectors.add("Pojo generic", Vectors.serializer(TypeInformation.of(new TypeHint<Box<String>>() {})), text, empty, null);
        Box<Simple> deep = new Box<>();
        deep.content = new Simple("deep", 1, 2);
        vectors.add("Pojo generic of Pojo", Vectors.serializer(TypeInformation.of(new TypeHint<Box<Simple>>() {})), deep);
        subclasses(vectors);
    }

    private static Scalar full() {
        Scalar full = new Scalar();
        full.truth = true;
        full.tiny = -1;
        full.small = -2;
        full.number = -3;
        full.large = Long.MIN_VALUE;
        full.ratio = 0.1f;
        full.precise = -0.0;
        full.letter = '€';
        full.boxedTruth = true;
        full.boxedTiny = 1;
        full.boxedSmall = 2;
        full.boxedNumber = 3;
        full.boxedLarge = Long.MAX_VALUE;
        full.boxedRatio = Float.NaN;
        full.boxedPrecise = Double.NEGATIVE_INFINITY;
        full.boxedLetter = 'x';
        full.text = "日本";
        full.date = new java.util.Date(1_600_000_000_123L);
        full.stamp = new java.sql.Timestamp(-1);
        full.decimal = new BigDecimal("-12.345");
        full.integer = java.math.BigInteger.ONE.shiftLeft(100);
        full.color = Scalars.Color.BLUE;
        full.bytes = new byte[] {1, -1};
        full.ints = new int[] {1, -1};
        full.strings = new String[] {"a", null};
        full.boxes = new Integer[] {1, null};
        return full;
    }

    private static Nested nested() {
        Nested nested = new Nested();
        nested.simple = new Simple("inner", 7, 0.5);
        nested.next = new Nested();
        nested.pair = Tuple2.of("p", 1);
        nested.array = new Simple[] {nested.simple, null};
        nested.day = LocalDate.of(2024, 2, 29);
        nested.moment = Instant.ofEpochSecond(1_700_000_000L, 123_456_789);
        nested.anything = "any";
        return nested;
    }

    private static Nested collections() {
        Nested nested = new Nested();
        nested.list = new ArrayList<>(Arrays.asList("a", "é", ""));
        nested.map = new HashMap<>();
        nested.map.put("k", 1);
        nested.map.put("none", -1);
        nested.set = new java.util.HashSet<>(Arrays.asList(1L, 2L));
        nested.simples = new ArrayList<>(Arrays.asList(new Simple("in list", 1, 1)));
        nested.anything = 5L;
        return nested;
    }

    private static Object[] animals() {
        Animal plain = new Animal();
        plain.name = "plain";
        Cat cat = new Cat();
        cat.name = "Tom";
        cat.lives = 9;
        Dog dog = new Dog();
        dog.weight = 12.5;
        Dog friendly = new Dog();
        friendly.name = "Rex";
        friendly.friend = cat;
        return new Object[] {plain, cat, dog, friendly, null, new Fish(300)};
    }

    private static void subclasses(Vectors vectors) throws Exception {
        TypeInformation<Animal> animal = Types.POJO(Animal.class);
        Object[] pojos = Arrays.copyOf(animals(), 5);
        vectors.add("Pojo subclasses seen", Vectors.serializer(animal), pojos);
        vectors.addWithEarlySnapshot("Pojo subclasses not seen", Vectors.serializer(animal), pojos)
                .put("classes", classes(Animal.class, Cat.class, Dog.class));
        vectors.add("Pojo subclasses registered", Vectors.serializer(animal, Cat.class, Dog.class), pojos);
        vectors.addWithEarlySnapshot("Pojo one subclass registered", Vectors.serializer(animal, Dog.class), pojos)
                .put("classes", classes(Animal.class, Cat.class));
        TypeSerializer<?> generic = Vectors.serializer(animal);
        vectors.attempt("Pojo subclass that is no Pojo", () -> {
            vectors.add("Pojo subclass that is no Pojo", generic, animals()[5]);
            KryoClasses.classesOf(vectors, Fish.class);
        });
    }

    /** Field lists as a user would give them: class name -> field -> Java type with generics. */
    static Map<String, Object> classes(Class<?>... types) {
        Map<String, Object> all = new LinkedHashMap<>();
        for (Class<?> type : types) {
            Map<String, Object> fields = new java.util.TreeMap<>();
            for (Class<?> level = type; level != null; level = level.getSuperclass()) {
                for (java.lang.reflect.Field field : level.getDeclaredFields()) {
                    int modifiers = field.getModifiers();
                    if (!java.lang.reflect.Modifier.isStatic(modifiers) && !java.lang.reflect.Modifier.isTransient(modifiers)) {
                        fields.put(field.getName(), field.getGenericType().getTypeName());
                    }
                }
            }
            all.put(type.getName(), fields);
        }
        return all;
    }
}
