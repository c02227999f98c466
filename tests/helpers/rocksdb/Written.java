import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.rocksdb.*;

/**
 * Opens databases that RocksDB has not written, as Flink opens its own, and tells what is in them.
 *
 * <p>{@code java -cp frocksdbjni.jar Written.java <directory>…}: each directory's {@code db} is opened, its blocks'
 * checksums are verified, and each column family is dumped to {@code <number>.expected}, and again to {@code
 * <number>.compacted} when a key more was merged to, all was compacted, and the database was opened anew.
 */
public final class Written {
    private static final byte[] EXTRA = {(byte) 0xff, (byte) 0xff, 'n', 'e', 'w'};
    private static final byte[] END = {(byte) 0xff, (byte) 0xff, (byte) 0xff};

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        for (String directory : args) {
            run(Path.of(directory));
        }
    }

    private static void run(Path directory) throws Exception {
        String database = directory.resolve("db").toString();
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        loadOptions(database);
        try (RocksDB db = open(database, handles)) {
            Tables.verify(db);
            dump(db, handles, directory, "expected");
            for (ColumnFamilyHandle family : handles) {
                find(db, family);
                db.merge(family, EXTRA, "a".getBytes());
                db.merge(family, EXTRA, "b".getBytes());
            }
            for (ColumnFamilyHandle family : handles) {
                try (FlushOptions flush = new FlushOptions().setWaitForFlush(true);
                        CompactRangeOptions all =
                                new CompactRangeOptions()
                                        .setBottommostLevelCompaction(
                                                CompactRangeOptions.BottommostLevelCompaction.kForce)) {
                    db.flush(flush, family);
                    db.compactRange(family, new byte[0], END, all);
                }
            }
            handles.forEach(ColumnFamilyHandle::close);
        }
        handles.clear();
        try (RocksDB db = open(database, handles)) {
            dump(db, handles, directory, "compacted");
            handles.forEach(ColumnFamilyHandle::close);
        }
    }

    /** The OPTIONS file is one, and tells of every column family. */
    private static void loadOptions(String database) throws Exception {
        List<ColumnFamilyDescriptor> told = Tables.told(database);
        try (Options plain = new Options()) {
            List<byte[]> names = RocksDB.listColumnFamilies(plain, database);
            for (int k = 0; k < names.size(); k++) {
                if (told.size() != names.size() || !Arrays.equals(told.get(k).getName(), names.get(k))) {
                    throw new IllegalStateException("OPTIONS tells of other column families than the MANIFEST");
                }
            }
        }
    }

    private static RocksDB open(String database, List<ColumnFamilyHandle> handles) throws Exception {
        List<byte[]> names;
        try (Options options = new Options()) {
            names = RocksDB.listColumnFamilies(options, database);
        }
        List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
        for (byte[] name : names) {
            ColumnFamilyOptions options =
                    new ColumnFamilyOptions()
                            .setMergeOperatorName("stringappendtest")
                            .setLevelCompactionDynamicLevelBytes(false)
                            .setTableFormatConfig(Tables.filtered());
            descriptors.add(new ColumnFamilyDescriptor(name, options));
        }
        // Without create-if-missing: what is not there is not made.
        DBOptions options = new DBOptions().setParanoidChecks(true).setStatistics(new Statistics());
        RocksDB db = RocksDB.open(options, database, descriptors, handles);
        STATISTICS = options.statistics();
        return db;
    }

    private static Statistics STATISTICS;

    /** Every key is found by itself, through the filter; others hardly ever get past it. */
    private static void find(RocksDB db, ColumnFamilyHandle family) throws Exception {
        long keys = 0;
        try (RocksIterator iterator = db.newIterator(family)) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                if (!Arrays.equals(db.get(family, iterator.key()), iterator.value())) {
                    throw new IllegalStateException("a key of " + name(family) + " is not found");
                }
                keys++;
            }
        }
        long before = STATISTICS.getTickerCount(TickerType.BLOOM_FILTER_USEFUL);
        for (int k = 0; k < 1000; k++) {
            byte[] key = (k % 2 == 0 ? "\0absent" + k : "\1\0\0absent" + k).getBytes(StandardCharsets.UTF_8);
            db.get(family, key);
        }
        long useful = STATISTICS.getTickerCount(TickerType.BLOOM_FILTER_USEFUL) - before;
        System.out.println(name(family) + "\t" + keys + "\t" + useful);
    }

    private static void dump(RocksDB db, List<ColumnFamilyHandle> handles, Path directory, String ending)
            throws Exception {
        for (int k = 0; k < handles.size(); k++) {
            Oracle.dump(db, handles.get(k), directory.resolve(k + "." + ending));
        }
    }

    private static String name(ColumnFamilyHandle family) throws Exception {
        return new String(family.getName(), StandardCharsets.UTF_8);
    }
}
