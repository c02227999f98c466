package restoring;

import fixtures.Json;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.api.java.typeutils.runtime.TupleSerializer;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** The names of the type expression language (see README.md), as a table. */
final class Language {
    private static final UnaryOperator<Object> AS_IT_IS = value -> value;
    private static final Map<String, TypeInformation<?>> SCALARS = new HashMap<>();
    private static final Map<String, Function<Expression, Type>> COMPOSITES = new HashMap<>();

    static {
        SCALARS.put("BOOLEAN", Types.BOOLEAN);
        SCALARS.put("BYTE", Types.BYTE);
        SCALARS.put("SHORT", Types.SHORT);
        SCALARS.put("INT", Types.INT);
        SCALARS.put("LONG", Types.LONG);
        SCALARS.put("FLOAT", Types.FLOAT);
        SCALARS.put("DOUBLE", Types.DOUBLE);
        SCALARS.put("CHAR", Types.CHAR);
        SCALARS.put("STRING", Types.STRING);
        SCALARS.put("VOID", Types.VOID);
        SCALARS.put("BIG_DEC", Types.BIG_DEC);
        SCALARS.put("BIG_INT", Types.BIG_INT);
        SCALARS.put("DATE", BasicTypeInfo.DATE_TYPE_INFO);
        SCALARS.put("LOCAL_DATE", Types.LOCAL_DATE);
        SCALARS.put("LOCAL_TIME", Types.LOCAL_TIME);
        SCALARS.put("LOCAL_DATE_TIME", Types.LOCAL_DATE_TIME);
        SCALARS.put("INSTANT", Types.INSTANT);
        SCALARS.put("SQL_DATE", Types.SQL_DATE);
        SCALARS.put("SQL_TIME", Types.SQL_TIME);
        SCALARS.put("SQL_TIMESTAMP", Types.SQL_TIMESTAMP);
        SCALARS.put("BYTES", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
        COMPOSITES.put("POJO", call -> Type.of(Types.POJO(call.type(0)), AS_IT_IS));
        COMPOSITES.put("ENUM", call -> Type.of(enumeration(call.type(0)), AS_IT_IS));
        COMPOSITES.put("GENERIC", call -> Type.of(Types.GENERIC(call.type(0)), AS_IT_IS));
        COMPOSITES.put("CLASS", call -> Type.of(TypeInformation.of(call.type(0)), AS_IT_IS));
        COMPOSITES.put("PRIMITIVE_ARRAY", Language::primitiveArray);
        COMPOSITES.put("BASIC_ARRAY", Language::basicArray);
        COMPOSITES.put("OBJECT_ARRAY", Language::objectArray);
        COMPOSITES.put("LIST", Language::list);
        COMPOSITES.put("MAP", Language::map);
        COMPOSITES.put("SET", Language::set);
        COMPOSITES.put("TUPLE", Language::tuple);
        COMPOSITES.put("ROW", Language::row);
        COMPOSITES.put("EITHER", Language::either);
        COMPOSITES.put("NULLABLE", call -> nullable(type(call, 0), false));
        COMPOSITES.put("NULLABLE_PADDED", call -> nullable(type(call, 0), true));
        COMPOSITES.put("SERIALIZER", Language::serializer);
        COMPOSITES.put("STREAM_RECORD", Language::streamRecord);
        COMPOSITES.put("AVRO_GENERIC", call -> AvroTypes.generic(call.text(0)));
        COMPOSITES.put("AVRO_SPECIFIC", call -> AvroTypes.specific(call.type(0)));
        COMPOSITES.put("EXTERNAL", call -> SqlTypes.external(call.text(0)));
        COMPOSITES.put("SQL", call -> SqlTypes.internal(call.text(0)));
        COMPOSITES.put("VOID_NAMESPACE", call -> Type.of(config -> VoidNamespaceSerializer.INSTANCE, nothing -> null));
        COMPOSITES.put("GLOBAL_WINDOW", call -> Type.of(config -> new GlobalWindow.Serializer(), nothing -> null));
        COMPOSITES.put("TIME_WINDOW", call -> Type.of(config -> new TimeWindow.Serializer(), Language::span));
    }

    private Language() {}

    static Type type(String expression) {
        return type(Expression.parse(expression));
    }

    private static Type type(Expression expression) {
        TypeInformation<?> scalar = SCALARS.get(expression.name);
        if (scalar != null) {
            return Type.of(scalar, AS_IT_IS);
        }
        Function<Expression, Type> composite = COMPOSITES.get(expression.name);
        if (composite == null) {
            throw new IllegalArgumentException("no type is called " + expression.name);
        }
        return composite.apply(expression);
    }

    private static Type type(Expression call, int argument) {
        call.text(argument);
        return type(call.arguments.get(argument));
    }

    private static Type[] types(Expression call) {
        return call.arguments.stream().map(Language::type).toArray(Type[]::new);
    }

    private static TypeInformation<?>[] informations(Type[] types) {
        return Arrays.stream(types).map(Type::information).toArray(TypeInformation<?>[]::new);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static TypeInformation<?> enumeration(Class<?> type) {
        return Types.ENUM((Class) type);
    }

    private static Type primitiveArray(Expression call) {
        return Type.of(Types.PRIMITIVE_ARRAY(type(call, 0).information()), AS_IT_IS);
    }

    private static Type basicArray(Expression call) {
        Class<?> element = type(call, 0).information().getTypeClass();
        Class<?> array = java.lang.reflect.Array.newInstance(element, 0).getClass();
        return Type.of(BasicArrayTypeInfo.getInfoFor(array), AS_IT_IS);
    }

    private static Type objectArray(Expression call) {
        Type element = type(call, 0);
        return Type.of(
                Types.OBJECT_ARRAY(element.information()), value -> element.viewAll(Arrays.asList((Object[]) value)));
    }

    private static Type list(Expression call) {
        Type element = type(call, 0);
        UnaryOperator<Object> view = value -> element.viewAll((Iterable<?>) value);
        if (element.hasInformation()) {
            return Type.of(Types.LIST(element.information()), view, element);
        }
        return Type.of(
                config -> new org.apache.flink.api.common.typeutils.base.ListSerializer<>(element.serializer(config)),
                view,
                element);
    }

    private static Type map(Expression call) {
        Type key = type(call, 0);
        Type value = type(call, 1);
        UnaryOperator<Object> view = entries -> Type.viewEntries(((Map<?, ?>) entries).entrySet(), key, value);
        if (key.hasInformation() && value.hasInformation()) {
            return Type.of(Types.MAP(key.information(), value.information()), view, key, value);
        }
        return Type.of(
                config ->
                        new org.apache.flink.api.common.typeutils.base.MapSerializer<>(
                                key.serializer(config), value.serializer(config)),
                view,
                key,
                value);
    }

    /** Sets have a TypeInformation since Flink 2.0. */
    private static Type set(Expression call) {
        Type element = type(call, 0);
        try {
            Object information =
                    Types.class.getMethod("SET", TypeInformation.class).invoke(null, element.information());
            return Type.of((TypeInformation<?>) information, value -> sorted((Set<?>) value, element));
        } catch (ReflectiveOperationException missing) {
            throw new IllegalArgumentException("this Flink has no type for sets", missing);
        }
    }

    private static Json.Raw sorted(Set<?> items, Type element) {
        String[] texts = items.stream().map(item -> Json.of(element.view(item))).sorted().toArray(String[]::new);
        return new Json.Raw(Arrays.toString(texts));
    }

    private static Type tuple(Expression call) {
        Type[] fields = types(call);
        UnaryOperator<Object> view = value -> Type.viewFields(fields, at -> ((Tuple) value).getField(at));
        if (Arrays.stream(fields).allMatch(Type::hasInformation)) {
            return Type.of(new TupleTypeInfo<>(informations(fields)), view, fields);
        }
        Class<?> type = Tuple.getTupleClass(fields.length);
        return Type.of(config -> tupleSerializer(type, serializers(fields, config)), view, fields);
    }

    private static TypeSerializer<?>[] serializers(
            Type[] types, org.apache.flink.api.common.serialization.SerializerConfig config) {
        return Arrays.stream(types).map(type -> type.serializer(config)).toArray(TypeSerializer<?>[]::new);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static TypeSerializer<?> tupleSerializer(Class<?> type, TypeSerializer<?>[] fields) {
        return new TupleSerializer(type, fields);
    }

    /** `ROW(INT, STRING)`, or with names `ROW(a: INT, b: STRING)`. */
    private static Type row(Expression call) {
        Type[] fields = types(call);
        TypeInformation<?>[] all = informations(fields);
        String[] names = call.arguments.stream().map(field -> field.label).toArray(String[]::new);
        boolean named = names.length > 0 && names[0] != null;
        return Type.of(named ? Types.ROW_NAMED(names, all) : Types.ROW(all), value -> rowView((Row) value, fields));
    }

    private static Object rowView(Row row, Type[] fields) {
        Map<String, Object> pairs = new LinkedHashMap<>();
        if (row.getKind() != RowKind.INSERT) {
            pairs.put("kind", row.getKind().shortString());
        }
        for (int at = 0; at < fields.length; at++) {
            pairs.put("f" + at, fields[at].view(row.getField(at)));
        }
        return object(pairs);
    }

    static Json.Raw object(Map<String, Object> pairs) {
        Object[] flat = new Object[2 * pairs.size()];
        int at = 0;
        for (Map.Entry<String, Object> pair : pairs.entrySet()) {
            flat[at++] = pair.getKey();
            flat[at++] = pair.getValue();
        }
        return Json.object(flat);
    }

    private static Type either(Expression call) {
        Type left = type(call, 0);
        Type right = type(call, 1);
        return Type.of(
                Types.EITHER(left.information(), right.information()),
                value -> {
                    Either<?, ?> either = (Either<?, ?>) value;
                    return either.isLeft()
                            ? Json.object("left", left.view(either.left()))
                            : Json.object("right", right.view(either.right()));
                });
    }

    private static Type nullable(Type inner, boolean padded) {
        return Type.of(config -> NullableSerializer.wrap(inner.serializer(config), padded), inner::view, inner);
    }

    /** A serializer's class that has a static INSTANCE or a constructor without arguments. */
    private static Type serializer(Expression call) {
        return Type.of(
                config -> {
                    try {
                        try {
                            return (TypeSerializer<?>) call.type(0).getField("INSTANCE").get(null);
                        } catch (NoSuchFieldException none) {
                            return (TypeSerializer<?>) call.type(0).getConstructor().newInstance();
                        }
                    } catch (ReflectiveOperationException wrong) {
                        throw new IllegalArgumentException("no instance of " + call.text(0), wrong);
                    }
                },
                AS_IT_IS);
    }

    /** What windows with an evictor keep. */
    private static Type streamRecord(Expression call) {
        Type element = type(call, 0);
        return Type.of(
                config -> new StreamElementSerializer<>(element.serializer(config)),
                value -> {
                    StreamRecord<?> record = (StreamRecord<?>) value;
                    Object time = record.hasTimestamp() ? record.getTimestamp() : null;
                    return Json.object("timestamp", time, "value", element.view(record.getValue()));
                },
                element);
    }

    static Json.Raw span(Object window) {
        return Json.object("start", ((TimeWindow) window).getStart(), "end", ((TimeWindow) window).getEnd());
    }
}
