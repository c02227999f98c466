package compatibility;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.ListSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * {@code write FILE}: writes of each case the snapshot of the old job's serializer and the bytes of a value. {@code
 * check FILE OUT}: asks this release, by the new job's serializer, about each of them, and reads the value. OUT has a
 * line of JSON per case.
 */
public final class Recording {
    private Recording() {}

    public static void main(String[] args) throws Exception {
        Path file = Paths.get(args[1]);
        if (args[0].equals("write")) {
            write(file);
        } else {
            check(file, Paths.get(args[2]));
        }
        System.exit(0);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void write(Path file) throws Exception {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file)))) {
            for (Case one : Cases.all()) {
                byte[] snapshot;
                byte[] bytes;
                String shown;
                try {
                    TypeSerializer serializer = one.oldSerializer();
                    Object value = one.value();
                    bytes = written(serializer, value); // first: the serializer meets subclasses then
                    shown = Shown.of(value, serializer, one);
                    snapshot = snapshot(serializer);
                } catch (Exception | LinkageError error) {
                    System.err.println("not written: " + one.name + ": " + first(error));
                    continue;
                }
                out.writeUTF(one.name);
                bytes(out, snapshot);
                bytes(out, bytes);
                out.writeUTF(shown);
            }
        }
    }

    private static void check(Path file, Path target) throws Exception {
        Map<String, Case> cases = new LinkedHashMap<>();
        for (Case one : Cases.all()) {
            cases.put(one.name, one);
        }
        List<String> lines = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file)))) {
            while (in.available() > 0) {
                String name = in.readUTF();
                byte[] snapshot = bytes(in);
                byte[] value = bytes(in);
                String shown = in.readUTF();
                Case one = cases.get(name);
                if (one != null) {
                    lines.add(json(verdict(one, snapshot, value, shown)));
                }
            }
        }
        Files.write(target, lines, StandardCharsets.UTF_8);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Map<String, String> verdict(Case one, byte[] snapshot, byte[] bytes, String shown) {
        Map<String, String> found = new LinkedHashMap<>();
        found.put("name", one.name);
        found.put("group", one.group);
        found.put("old", hex(snapshot));
        found.put("bytes", hex(bytes));
        found.put("value", shown);
        TypeSerializer own = null;
        try {
            own = one.newSerializer();
            found.put("new", hex(snapshot(own)));
        } catch (Exception | LinkageError error) {
            found.put("no_new", first(error));
        }
        TypeSerializerSnapshot old;
        try {
            old = TypeSerializerSnapshot.readVersionedSnapshot(
                    new DataInputDeserializer(snapshot), Recording.class.getClassLoader());
        } catch (Exception | LinkageError error) {
            found.put("verdict", "unreadable");
            found.put("exception", first(error));
            return found;
        }
        TypeSerializer restored = null;
        try {
            restored = old.restoreSerializer();
            try {
                found.put("restored", told(one, restored, bytes, shown, new LinkedHashMap<>()));
            } catch (Exception | LinkageError error) {
                found.put("restored", "throws");
                found.put("restored_exception", first(error));
            }
        } catch (Exception | LinkageError error) {
            found.put("restored", "not restored");
            found.put("restored_exception", first(error));
        }
        if (own == null) {
            found.put("verdict", "no new serializer");
            return found;
        }
        TypeSerializerSchemaCompatibility resolved;
        try {
            resolved = one.wrapped && isAware() ? resolved(aware(own), awareSnapshot(old)) : resolved(own, old);
        } catch (Exception | LinkageError error) {
            found.put("verdict", "throws");
            found.put("exception", first(error));
            return found;
        }
        boolean migrates = resolved.isCompatibleAfterMigration();
        found.put(
                "verdict",
                resolved.isCompatibleAsIs()
                        ? "as is"
                        : migrates ? "after migration" : resolved.isIncompatible() ? "incompatible" : "reconfigured");
        if (resolved.isIncompatible() || one.wrapped) {
            return found;
        }
        try {
            if (!migrates) {
                TypeSerializer used = resolved.isCompatibleAsIs() ? own : resolved.getReconfiguredSerializer();
                found.put("values", told(one, used, bytes, shown, found));
            } else {
                if (restored == null) {
                    throw new IllegalStateException(found.get("restored_exception"));
                }
                Object value = restored.deserialize(new DataInputDeserializer(bytes));
                found.put("values", told(one, own, written(own, value), shown, found));
            }
        } catch (Exception | LinkageError error) {
            found.put("values", "throws");
            found.put("exception", first(error));
        }
        return found;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static String told(
            Case one, TypeSerializer serializer, byte[] bytes, String shown, Map<String, String> found)
            throws Exception {
        DataInputDeserializer in = new DataInputDeserializer(bytes);
        String read = Shown.of(serializer.deserialize(in), serializer, one);
        if (in.available() > 0) {
            found.put("left_over", String.valueOf(in.available()));
        }
        if (read.equals(shown) && in.available() == 0) {
            return "equal";
        }
        found.put("read", read);
        return "other";
    }

    /** Before Flink 1.19 the old snapshot was asked with the new serializer, since then the new one with the old. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static TypeSerializerSchemaCompatibility resolved(TypeSerializer own, TypeSerializerSnapshot old)
            throws Exception {
        return resolved(own, own.snapshotConfiguration(), old);
    }

    private static TypeSerializerSchemaCompatibility<?> resolved(
            TypeSerializerSnapshot<?> own, TypeSerializerSnapshot<?> old) throws Exception {
        return resolved(null, own, old);
    }

    private static TypeSerializerSchemaCompatibility<?> resolved(
            TypeSerializer<?> own, TypeSerializerSnapshot<?> snapshot, TypeSerializerSnapshot<?> old) throws Exception {
        try {
            Method method;
            try {
                method = TypeSerializerSnapshot.class.getMethod("resolveSchemaCompatibility", TypeSerializerSnapshot.class);
            } catch (NoSuchMethodException before) {
                method = TypeSerializerSnapshot.class.getMethod("resolveSchemaCompatibility", TypeSerializer.class);
                return (TypeSerializerSchemaCompatibility<?>) method.invoke(old, own);
            }
            return (TypeSerializerSchemaCompatibility<?>) method.invoke(snapshot, old);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause() instanceof Exception ? (Exception) thrown.getCause() : thrown;
        }
    }

    private static boolean isAware() {
        try {
            Class.forName("org.apache.flink.runtime.state.ttl.TtlAwareSerializer");
            return true;
        } catch (ClassNotFoundException before) {
            return false;
        }
    }

    /** What backends since Flink 2.0 compare, so that a time to live can be turned on and off. */
    private static TypeSerializerSnapshot<?> aware(TypeSerializer<?> serializer) throws Exception {
        Class<?> type = Class.forName("org.apache.flink.runtime.state.ttl.TtlAwareSerializer");
        Object wrapped = type.getMethod("wrapTtlAwareSerializer", TypeSerializer.class).invoke(null, serializer);
        return awareSnapshot(((TypeSerializer<?>) wrapped).snapshotConfiguration());
    }

    private static TypeSerializerSnapshot<?> awareSnapshot(TypeSerializerSnapshot<?> snapshot) throws Exception {
        Class<?> type = Class.forName("org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshotWrapper");
        Object wrapper;
        try {
            wrapper = type.getConstructor(TypeSerializerSnapshot.class).newInstance(snapshot);
        } catch (NoSuchMethodException before) { // up to 2.0
            StateDescriptor.Type kind = snapshot instanceof ListSerializerSnapshot
                    ? StateDescriptor.Type.LIST
                    : StateDescriptor.Type.VALUE;
            wrapper = type.getConstructor(StateDescriptor.Type.class, TypeSerializerSnapshot.class)
                    .newInstance(kind, snapshot);
        }
        return (TypeSerializerSnapshot<?>) type.getMethod("getTtlAwareSerializerSnapshot").invoke(wrapper);
    }

    private static byte[] snapshot(TypeSerializer<?> serializer) throws Exception {
        DataOutputSerializer out = new DataOutputSerializer(64);
        TypeSerializerSnapshot.writeVersionedSnapshot(out, serializer.snapshotConfiguration());
        return out.getCopyOfBuffer();
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static byte[] written(TypeSerializer serializer, Object value) throws Exception {
        DataOutputSerializer out = new DataOutputSerializer(64);
        serializer.serialize(value, out);
        return out.getCopyOfBuffer();
    }

    /** The first lines of an exception and of its causes. */
    static String first(Throwable error) {
        List<String> lines = new ArrayList<>();
        for (Throwable at = error; at != null && lines.size() < 6; at = at.getCause()) {
            String line = at.getClass().getName() + ": " + String.valueOf(at.getMessage()).split("\n")[0];
            if (!(at instanceof InvocationTargetException)) {
                lines.add(line);
            }
        }
        return String.join(" <- ", lines);
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    private static void bytes(DataOutputStream out, byte[] bytes) throws Exception {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static byte[] bytes(DataInputStream in) throws Exception {
        byte[] found = new byte[in.readInt()];
        in.readFully(found);
        return found;
    }

    private static String json(Map<String, String> values) {
        List<String> parts = new ArrayList<>();
        for (Map.Entry<String, String> entry : values.entrySet()) {
            parts.add(quoted(entry.getKey()) + ": " + quoted(entry.getValue()));
        }
        return "{" + String.join(", ", parts) + "}";
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one < ' ' || one > '~' || one == '"' || one == '\\') {
                out.append(String.format("\\u%04x", (int) one));
            } else {
                out.append(one);
            }
        }
        return out.append('"').toString();
    }
}
