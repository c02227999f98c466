package restoring;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.runtime.OperatorIDPair;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** The job of a spec: every operator behind a source of its own that emits nothing. */
final class Job {
    private final StreamExecutionEnvironment env;
    private final Spec spec;

    private Job(StreamExecutionEnvironment env, Spec spec) {
        this.env = env;
        this.spec = spec;
    }

    static JobGraph graph(StreamExecutionEnvironment env, Spec spec) throws Exception {
        Job job = new Job(env, spec);
        if (spec.maxParallelism != null) {
            env.setMaxParallelism(spec.maxParallelism);
        }
        for (Spec.Operator operator : spec.operators) {
            job.add(operator);
        }
        for (String hook : spec.hooks) {
            env.addSource(new Waiting<Long>(), Types.LONG)
                    .setParallelism(1)
                    .map(new HookAgain(hook))
                    .filter(nothing -> false);
        }
        JobGraph graph = env.getStreamGraph().getJobGraph();
        graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(recovery(spec)));
        return graph;
    }

    /** The ids Flink gives the operators; vertices are called as the operators are. */
    static Map<OperatorID, Spec.Operator> ids(JobGraph graph, Spec spec) {
        Map<String, Spec.Operator> names = new HashMap<>();
        spec.operators.forEach(operator -> names.put(operator.label(), operator));
        Map<OperatorID, Spec.Operator> ids = new HashMap<>();
        for (JobVertex vertex : graph.getVertices()) {
            if (names.containsKey(vertex.getName())) {
                OperatorIDPair pair = vertex.getOperatorIDs().get(0);
                OperatorID id = pair.getUserDefinedOperatorID().orElse(pair.getGeneratedOperatorID());
                ids.put(id, names.get(vertex.getName()));
            }
        }
        return ids;
    }

    /** How many subtasks of the job will tell that they have read their state. */
    static int readers(Spec spec, int parallelism) {
        return spec.operators.stream()
                .filter(Job::reads)
                .mapToInt(operator -> operator.nonParallel ? 1 : parallelism)
                .sum();
    }

    private static boolean reads(Spec.Operator operator) {
        return operator.windows == null && !operator.kafka && operator.connected.isEmpty();
    }

    private void add(Spec.Operator operator) throws Exception {
        if (!operator.connected.isEmpty()) {
            KafkaSource<Long> source = Connected.source(operator.connected);
            identify(env.fromSource(source, WatermarkStrategy.noWatermarks(), "kafka"), operator)
                    .filter(nothing -> false);
        } else if (operator.kafka) {
            KafkaAgain source = new KafkaAgain(operator.label());
            identify(env.fromSource(source, WatermarkStrategy.noWatermarks(), "kafka"), operator)
                    .filter(nothing -> false);
        } else if (operator.windows != null) {
            identify(WindowsAgain.job(env, operator), operator);
        } else {
            DataStream<Long> silence = env.addSource(new Waiting<Long>(), Types.LONG).setParallelism(1);
            String text = Spec.text(operator);
            boolean keyed = operator.key != null;
            DataStream<Long> input =
                    keyed
                            ? silence.keyBy(new NoKey<Long>(), Language.type(operator.key).information())
                            : silence.rebalance();
            identify(input.transform(operator.label(), Types.STRING, new ReadBack(text)), operator);
        }
    }

    private static <T> SingleOutputStreamOperator<T> identify(
            SingleOutputStreamOperator<T> stream, Spec.Operator operator) {
        stream.name(operator.label());
        if (operator.nonParallel) {
            stream.forceNonParallel();
        }
        return operator.uid == null ? stream.setUidHash(operator.uidHash) : stream.uid(operator.uid);
    }

    /** From where, and whose the snapshot is then. The class of the mode is another one in Flink 2. */
    private static Configuration recovery(Spec spec) {
        String mode = spec.claim ? "CLAIM" : "NO_CLAIM";
        Configuration recovery = new Configuration();
        recovery.setString("execution.savepoint.path", spec.path);
        recovery.setString("execution.state-recovery.path", spec.path);
        recovery.setString("execution.savepoint-restore-mode", mode);
        recovery.setString("execution.state-recovery.claim-mode", mode);
        return recovery;
    }

    static Configuration configuration(Spec spec, String backend) {
        Configuration configuration = new Configuration();
        configuration.setString("restart-strategy.type", "none");
        configuration.setString("state.backend.type", backend);
        spec.options.forEach(configuration::setString);
        return configuration;
    }

    /** Of an input that never comes. */
    static final class NoKey<T> implements KeySelector<T, Object> {
        @Override
        public Object getKey(T element) {
            throw new UnsupportedOperationException("the restored job has no input");
        }
    }
}
