package planned;

import java.util.HashSet;
import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;

/** The connector 'rows': a table of the rows of a file, after which it idles. */
public final class RowsFactory implements DynamicTableSourceFactory {
    static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();
    static final ConfigOption<String> CHANGELOG = ConfigOptions.key("changelog").stringType().defaultValue("append");

    static final ConfigOption<Boolean> PICKED = ConfigOptions.key("picked").booleanType().defaultValue(false);

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        ReadableConfig options = FactoryUtil.createTableFactoryHelper(this, context).getOptions();
        String path = options.get(PATH);
        String changelog = options.get(CHANGELOG);
        return options.get(PICKED)
                ? new PickedRowsTable(path, changelog, context.getPhysicalRowDataType())
                : new RowsTable(path, changelog, context.getPhysicalRowDataType());
    }

    @Override
    public String factoryIdentifier() {
        return "rows";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        Set<ConfigOption<?>> options = new HashSet<>();
        options.add(PATH);
        return options;
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        Set<ConfigOption<?>> options = new HashSet<>();
        options.add(CHANGELOG);
        options.add(PICKED);
        return options;
    }
}
