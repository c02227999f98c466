package restoring;

import fixtures.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/** What a type expression stands for: the serializer a job would use, and how its values are shown as JSON. */
final class Type {
    private final TypeInformation<?> information;
    private final Function<SerializerConfig, TypeSerializer<?>> serializer;
    private final UnaryOperator<Object> view;
    final List<Type> parts;

    private Type(
            TypeInformation<?> information,
            Function<SerializerConfig, TypeSerializer<?>> serializer,
            UnaryOperator<Object> view,
            Type... parts) {
        this.information = information;
        this.serializer = serializer;
        this.view = view;
        this.parts = Arrays.asList(parts);
    }

    static Type of(TypeInformation<?> information, UnaryOperator<Object> view, Type... parts) {
        return new Type(information, information::createSerializer, view, parts);
    }

    /** A type that only has a serializer, such as a window's. */
    static Type of(
            Function<SerializerConfig, TypeSerializer<?>> serializer, UnaryOperator<Object> view, Type... parts) {
        return new Type(null, serializer, view, parts);
    }

    boolean hasInformation() {
        return information != null;
    }

    @SuppressWarnings("unchecked")
    TypeInformation<Object> information() {
        if (information == null) {
            throw new IllegalArgumentException("this type has a serializer, but no TypeInformation");
        }
        return (TypeInformation<Object>) information;
    }

    @SuppressWarnings("unchecked")
    TypeSerializer<Object> serializer(SerializerConfig config) {
        return (TypeSerializer<Object>) serializer.apply(config);
    }

    /** The value as {@link Json} writes it. */
    Object view(Object value) {
        return value == null ? null : view.apply(value);
    }

    Type part(int at) {
        if (at >= parts.size()) {
            throw new IllegalArgumentException("the type has " + parts.size() + " parts, another one is needed");
        }
        return parts.get(at);
    }

    Object viewAll(Iterable<?> items) {
        List<Object> seen = new ArrayList<>();
        items.forEach(item -> seen.add(view(item)));
        return seen;
    }

    /** Entries in the order of their texts. */
    static Json.Raw viewEntries(Iterable<? extends Map.Entry<?, ?>> entries, Type key, Type value) {
        List<String> texts = new ArrayList<>();
        for (Map.Entry<?, ?> entry : entries) {
            Object shown = Json.object("key", key.view(entry.getKey()), "value", value.view(entry.getValue()));
            texts.add(Json.of(shown));
        }
        Collections.sort(texts);
        return new Json.Raw(texts.toString());
    }

    /** Fields `f0`, `f1`, … */
    static Json.Raw viewFields(Type[] types, Function<Integer, Object> field) {
        Object[] pairs = new Object[2 * types.length];
        for (int at = 0; at < types.length; at++) {
            pairs[2 * at] = "f" + at;
            pairs[2 * at + 1] = types[at].view(field.apply(at));
        }
        return Json.object(pairs);
    }
}
