package stateproc.vectors;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Random;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.MapSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple0;
import org.apache.flink.api.java.tuple.Tuple1;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.api.java.typeutils.runtime.EitherSerializer;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.api.java.typeutils.runtime.RowSerializer;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** Tuples, rows, Either and Nullable. */
final class Composites {
    private static final TypeSerializer<Long> LONG = LongSerializer.INSTANCE;
    private static final TypeSerializer<String> STRING = StringSerializer.INSTANCE;
    private static final TypeSerializer<Integer> INT = IntSerializer.INSTANCE;

    private Composites() {}

    static void write(Vectors vectors) throws Exception {
        tuples(vectors);
        rows(vectors);
        either(vectors);
        vectors.add("Nullable padded Long", NullableSerializer.wrap(LONG, true), 1L, null, Long.MIN_VALUE);
        vectors.add("Nullable Long", NullableSerializer.wrap(LONG, false), 1L, null);
        vectors.add("Nullable String", NullableSerializer.wrap(STRING, true), "a", null, "");
        vectors.add("Nullable padded Tuple2", NullableSerializer.wrap(tuple(Types.INT, Types.LONG), true),
                Tuple2.of(1, 2L), null);
    }

    @SuppressWarnings("unchecked")
    private static TypeSerializer<Tuple> tuple(TypeInformation<?>... types) throws Exception {
        return (TypeSerializer<Tuple>) Vectors.serializer(new TupleTypeInfo<>(types));
    }

    private static void tuples(Vectors vectors) throws Exception {
        vectors.add("Tuple0", Reflect.<TypeSerializer<?>>constant(
                "org.apache.flink.api.java.typeutils.runtime.Tuple0Serializer", "INSTANCE"), Tuple0.INSTANCE);
        TypeInformation<?>[] kinds = {Types.STRING, Types.LONG, Types.INT, Types.BOOLEAN, Types.DOUBLE};
        for (int arity = 1; arity <= 25; arity++) {
            TypeInformation<?>[] types = new TypeInformation<?>[arity];
            Tuple value = Tuple.getTupleClass(arity).getDeclaredConstructor().newInstance();
            Object[] fields = {"é" + arity, (long) arity << 33, -arity, arity % 2 == 0, arity / 4.0};
            for (int i = 0; i < arity; i++) {
                types[i] = kinds[i % kinds.length];
                value.setField(fields[i % kinds.length], i);
            }
            vectors.add("Tuple" + arity, tuple(types), value);
        }
        vectors.add("Tuple2 fixed length", tuple(Types.LONG, Types.INT), Tuple2.of(1L, 2), Tuple2.of(-1L, -2));
        vectors.add("Tuple nested", tuple(Types.TUPLE(Types.STRING, Types.TUPLE(Types.LONG)), Types.LIST(Types.INT)),
                Tuple2.of(Tuple2.of("a", Tuple1.of(7L)), Arrays.asList(1, 2)),
                Tuple2.of(Tuple2.of(null, Tuple1.of(-7L)), new ArrayList<Integer>()));
        vectors.add("Tuple3 of nullable scalars", tuple(Types.STRING, Types.BIG_DEC, Types.SQL_DATE),
                new Tuple3<>(null, null, null), new Tuple3<>("x", new java.math.BigDecimal("1.50"), new java.sql.Date(86_400_000)));
    }

    private static void rows(Vectors vectors) throws Exception {
        TypeSerializer<?> two = new RowSerializer(new TypeSerializer<?>[] {LONG, STRING});
        List<Object> rows = new ArrayList<>(Arrays.asList(
                Row.of(1L, "a"), Row.of(null, "x"), Row.of(-1L, null), Row.of(null, null)));
        vectors.attempt("Row kinds", () -> {
            for (int kind = 1; kind < 4; kind++) {
                Object constant = Class.forName("org.apache.flink.types.RowKind").getEnumConstants()[kind];
                Row row = Row.of((long) kind, null);
                Reflect.call(row, "setKind", constant);
                rows.add(row);
            }
        });
        vectors.add("Row", two, rows.toArray());
        vectors.add("Row without fields", new RowSerializer(new TypeSerializer<?>[0]), new Row(0));
        vectors.attempt("Row without row kind", () -> vectors.add("Row without row kind",
                (TypeSerializer<?>) Reflect.create(RowSerializer.class.getName(),
                        new TypeSerializer<?>[] {LONG, STRING}, null, false), rows.subList(0, 4).toArray()));
        vectors.attempt("Row with names", () -> {
            LinkedHashMap<String, Integer> positions = new LinkedHashMap<>();
            positions.put("id", 0);
            positions.put("name", 1);
            vectors.add("Row with names", (TypeSerializer<?>) Reflect.create(RowSerializer.class.getName(),
                    new TypeSerializer<?>[] {LONG, STRING}, positions), rows.toArray());
        });
        Random random = Samples.random();
        for (int arity : new int[] {6, 7, 8, 14, 30, 62, 63}) {
            TypeSerializer<?>[] fields = new TypeSerializer<?>[arity];
            List<Object> wide = new ArrayList<>();
            for (int k = 0; k < 4; k++) {
                Row row = new Row(arity);
                for (int i = 0; i < arity; i++) {
                    fields[i] = i % 2 == 0 ? INT : STRING;
                    boolean missing = k == 1 || k > 1 && random.nextBoolean();
                    row.setField(i, missing ? null : i % 2 == 0 ? (Object) random.nextInt() : "s" + i);
                }
                wide.add(row);
            }
            vectors.add("Row of " + arity, new RowSerializer(fields), wide.toArray());
        }
        TypeSerializer<?> nested = new RowSerializer(new TypeSerializer<?>[] {
            two, new ListSerializer<>(STRING), new MapSerializer<>(STRING, INT),
            NullableSerializer.wrap(INT, true), new EitherSerializer<>(INT, STRING)});
        vectors.add("Row nested", nested,
                Row.of(Row.of(1L, null), Arrays.asList("a", "b"), java.util.Collections.singletonMap("k", 1), 5, Either.Left(1)),
                Row.of(null, null, null, null, null),
                Row.of(Row.of(null, null), new ArrayList<String>(), java.util.Collections.singletonMap("k", null), -5, Either.Right("é")));
    }

    private static void either(Vectors vectors) throws Exception {
        vectors.add("Either", new EitherSerializer<>(LONG, STRING), Either.Left(1L), Either.Right("é"));
        vectors.add("Either nested", new EitherSerializer<>(new EitherSerializer<>(INT, STRING), new ListSerializer<>(LONG)),
                Either.Left(Either.Left(1)), Either.Left(Either.Right("x")), Either.Right(Arrays.asList(1L, 2L)));
    }
}
