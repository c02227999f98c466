package restoring;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.type.TypeReference;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.PropertyNamingStrategies;

/** One savepoint to restore and what to read back, as `restore.py` writes it. */
public final class Spec {
    private static final ObjectMapper JSON =
            new ObjectMapper().setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE);

    public String name;
    public String path;
    public List<Operator> operators = new ArrayList<>();
    public List<String> hooks = new ArrayList<>();
    public List<String> backends = new ArrayList<>();
    public List<Integer> parallelisms = new ArrayList<>();
    public Integer maxParallelism;
    public Map<String, String> options = new LinkedHashMap<>();
    public String retake;
    public boolean claim;

    /** An operator: its states are read back, or its windows fire, or it is a source. */
    public static final class Operator {
        public String uid;
        public String uidHash;
        public String key;
        public List<State> states = new ArrayList<>();
        public List<Timers> timers = new ArrayList<>();
        public Windows windows;
        public boolean kafka;
        public List<String> connected = new ArrayList<>();
        public boolean nonParallel;

        String label() {
            return uid == null ? uidHash : uid;
        }
    }

    /** A keyed or operator state. */
    public static final class State {
        public String name;
        public String kind;
        public String type;
        public String namespace;
        public Long ttl;

        boolean keyed() {
            return !kind.startsWith("operator-") && !kind.equals("broadcast");
        }
    }

    /** A timer service. */
    public static final class Timers {
        public String service;
        public String namespace;
    }

    /** A window operator: sizes in milliseconds; what is stored: list, reduce, aggregate or evict. */
    public static final class Windows {
        public String assigner;
        public long size;
        public long slide;
        public String contents;
        public String type;
    }

    static List<Spec> read(String text) throws IOException {
        return JSON.readValue(text, new TypeReference<List<Spec>>() {});
    }

    static String text(Operator operator) throws IOException {
        return JSON.writeValueAsString(operator);
    }

    static Operator operator(String text) throws IOException {
        return JSON.readValue(text, Operator.class);
    }
}
