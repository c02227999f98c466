package stateproc.vectors;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/** User classes through Kryo's FieldSerializer, with the field lists a user would describe them by. */
final class KryoClasses {
    private KryoClasses() {}

    static class Primitives {
        boolean truth = true;
        byte tiny = -1;
        short small = -300;
        char letter = '€';
        int number = -65;
        long large = Long.MIN_VALUE;
        float ratio = 0.1f;
        double precise = -0.0;
    }

    static class Boxed {
        Boolean truth;
        Byte tiny;
        Short small;
        Character letter;
        Integer number;
        Long large;
        Float ratio;
        Double precise;
        String text;
        java.math.BigDecimal decimal;
        java.util.UUID uuid;
        LocalDate day;
        Scalars.Color color;
        byte[] bytes;
        long[] longs;
        String[] strings;
    }

    static final class Point {
        int x;
        int y;

        Point() {}

        Point(int x, int y) {
            this.x = x;
            this.y = y;
        }
    }

    static class Base {
        String base = "base";
        int zebra = 1;
    }

    static class Derived extends Base {
        String alpha = "derived";
        Point point = new Point(1, -2);
        Base other;
    }

    static class Holder {
        List<String> names;
        List<Point> points;
        List<Base> bases;
        Map<String, Integer> counts;
        Map<Point, List<String>> deep;
        Object anything;
        Holder self;
        Point[] array;
        Point shared;
        Point again;
        transient int forgotten = 7;
    }

    static class Generic<T> {
        T content;
        List<T> more;
    }

    /** A class whose fields all have types with parameters. */
    static class Bound {
        Generic<String> generic;
        java.util.Optional<String> maybe;
    }

    static void write(Vectors vectors) {
        add(vectors, "primitives", new Class<?>[] {Primitives.class}, new Primitives());
        add(vectors, "boxed", new Class<?>[] {Boxed.class}, new Boxed(), boxed());
        add(vectors, "Point", new Class<?>[] {Point.class}, new Point(1, 2), new Point(-65, Integer.MIN_VALUE), null);
        Derived nested = new Derived();
        nested.other = new Derived();
        add(vectors, "inheritance", new Class<?>[] {Base.class, Derived.class, Point.class},
                new Base(), new Derived(), nested);
        Class<?>[] holder = {Holder.class, Base.class, Derived.class, Point.class};
        add(vectors, "holder", holder, new Holder(), holder(), maps(), cycle());
        Generic<String> generic = new Generic<>();
        generic.content = "x";
        generic.more = new ArrayList<>(Arrays.asList("y", "z"));
        Bound bound = new Bound();
        bound.generic = generic;
        bound.maybe = java.util.Optional.of("m");
        add(vectors, "generic", new Class<?>[] {Generic.class}, generic, new Generic<>());
        add(vectors, "bound generic", new Class<?>[] {Bound.class, Generic.class}, bound, new Bound());
        add(vectors, "list of Point", new Class<?>[] {Point.class},
                new ArrayList<>(Arrays.asList(new Point(1, 2), new Point(3, 4), null)), new ArrayList<>(Arrays.asList(new Point(0, 0))));
        add(vectors, "Pojo class", new Class<?>[] {Pojos.Simple.class}, new Pojos.Simple("a", 1, 1.5), new Pojos.Simple(null, -1, 0));
        vectors.attempt("Kryo registered", () -> registered(vectors));
    }

    private static Boxed boxed() {
        Boxed boxed = new Boxed();
        boxed.truth = false;
        boxed.tiny = 1;
        boxed.small = 300;
        boxed.letter = 'x';
        boxed.number = 64;
        boxed.large = 1L << 60;
        boxed.ratio = 1.5f;
        boxed.precise = Double.NaN;
        boxed.text = "é";
        boxed.decimal = new java.math.BigDecimal("1.50");
        boxed.uuid = new java.util.UUID(1, -1);
        boxed.day = LocalDate.of(2024, 2, 29);
        boxed.color = Scalars.Color.GREEN;
        boxed.bytes = new byte[] {1, -1};
        boxed.longs = new long[] {1, -1};
        boxed.strings = new String[] {"a", null};
        return boxed;
    }

    private static Holder holder() {
        Holder holder = new Holder();
        holder.names = new ArrayList<>(Arrays.asList("a", "é"));
        holder.points = new ArrayList<>(Arrays.asList(new Point(1, 2), new Point(3, 4)));
        holder.bases = new ArrayList<>(Arrays.asList(new Base(), new Derived()));
        holder.anything = 5L;
        holder.array = new Point[] {new Point(5, 6), null};
        holder.shared = new Point(7, 8);
        holder.again = holder.shared;
        return holder;
    }

    private static Holder maps() {
        Holder holder = new Holder();
        holder.names = new ArrayList<>(Arrays.asList("a", null));
        holder.points = new ArrayList<>();
        holder.counts = new HashMap<>();
        holder.counts.put("k", 1);
        holder.deep = new LinkedHashMap<>();
        holder.deep.put(new Point(1, 1), new ArrayList<>(Arrays.asList("d")));
        holder.anything = new Derived();
        return holder;
    }

    private static Holder cycle() {
        Holder holder = new Holder();
        holder.self = holder;
        return holder;
    }

    private static void add(Vectors vectors, String name, Class<?>[] classes, Object... values) {
        vectors.attempt("Kryo class " + name, () -> {
            vectors.add("Kryo class " + name, KryoValues.serializer(Object.class), values);
            classesOf(vectors, classes);
        });
        vectors.attempt("Kryo typed " + name, () -> {
            vectors.add("Kryo typed " + name, KryoValues.serializer(classes[0]), values);
            classesOf(vectors, classes);
        });
    }

    private static void registered(Vectors vectors) throws Exception {
        Object config = Vectors.config();
        Reflect.call(config, "registerKryoType", Point.class);
        Reflect.call(config, "registerKryoType", Base.class);
        TypeSerializer<?> serializer = KryoValues.serializer(Derived.class, config);
        vectors.add("Kryo registered", serializer, new Derived(), new Base(), new Point(1, 2));
        classesOf(vectors, Derived.class, Base.class, Point.class);
        TypeSerializer<?> itself = KryoValues.serializer(Point.class, config);
        vectors.add("Kryo registered itself", itself, new Point(1, 2), new Base());
        classesOf(vectors, Base.class, Point.class);
    }

    /** Attach the field lists of classes to the entry added last. */
    @SuppressWarnings("unchecked")
    static void classesOf(Vectors vectors, Class<?>... classes) {
        Map<String, Object> entry = (Map<String, Object>) vectors.entries.get(vectors.entries.size() - 1);
        entry.put("classes", Pojos.classes(classes));
    }
}
