import io.debezium.config.Configuration;
import io.debezium.connector.postgresql.PostgresConnectorConfig;
import io.debezium.connector.postgresql.PostgresOffsetContext;
import java.lang.reflect.Method;
import org.apache.flink.cdc.connectors.base.source.meta.offset.Offset;
import org.apache.flink.cdc.connectors.base.source.meta.offset.OffsetFactory;
import org.apache.flink.cdc.connectors.postgres.source.offset.PostgresOffsetFactory;
import org.apache.flink.cdc.connectors.postgres.source.offset.PostgresOffsetUtils;

/** Where Debezium begins to stream from a split's offset of Postgres. */
class Own {
    static OffsetFactory factory() {
        return new PostgresOffsetFactory();
    }

    static String offset(Offset found, String[] parts) throws Exception {
        Configuration configuration = Configuration.create()
                .with("database.server.name", "s").with("database.hostname", "h").with("database.user", "u")
                .with("database.dbname", "d").with("topic.prefix", "s").build();
        PostgresOffsetContext context = PostgresOffsetUtils.getPostgresOffsetContext(
                new PostgresOffsetContext.Loader(new PostgresConnectorConfig(configuration)), found);
        return said(context, "lsn") + " " + said(context, "hasLastKnownPosition") + " "
                + said(context, "lastCommitLsn") + " " + said(context, "lastCompletelyProcessedLsn") + " "
                + context.isSnapshotRunning();
    }

    private static Object said(PostgresOffsetContext context, String name) throws Exception {
        Method method = PostgresOffsetContext.class.getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(context);
    }
}
