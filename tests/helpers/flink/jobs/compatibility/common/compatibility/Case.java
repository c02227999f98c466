package compatibility;

import java.util.concurrent.Callable;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/** What the old and the new job declare a state's values with: type information or serializers; and a value. */
final class Case {
    final String group;
    final String name;
    /** Whether backends wrap both to compare them. */
    final boolean wrapped;

    private final Callable<?> old;
    private final Callable<?> own;
    private final Callable<?> value;

    Case(String group, String name, boolean wrapped, Callable<?> old, Callable<?> own, Callable<?> value) {
        this.group = group;
        this.name = name;
        this.wrapped = wrapped;
        this.old = old;
        this.own = own;
        this.value = value;
    }

    TypeSerializer<?> oldSerializer() throws Exception {
        return serializer(old.call());
    }

    TypeSerializer<?> newSerializer() throws Exception {
        return serializer(own.call());
    }

    Object value() throws Exception {
        return value.call();
    }

    /** The argument of createSerializer is another since Flink 2. */
    static TypeSerializer<?> serializer(Object type) throws Exception {
        if (type instanceof TypeSerializer) {
            return (TypeSerializer<?>) type;
        }
        ExecutionConfig config = new ExecutionConfig();
        try {
            Class<?> argument = Class.forName("org.apache.flink.api.common.serialization.SerializerConfig");
            return (TypeSerializer<?>)
                    TypeInformation.class
                            .getMethod("createSerializer", argument)
                            .invoke(type, ExecutionConfig.class.getMethod("getSerializerConfig").invoke(config));
        } catch (ClassNotFoundException | NoSuchMethodException before) {
            return (TypeSerializer<?>)
                    TypeInformation.class
                            .getMethod("createSerializer", ExecutionConfig.class)
                            .invoke(type, config);
        }
    }
}
