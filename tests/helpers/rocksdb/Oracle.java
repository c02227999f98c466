import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.rocksdb.*;

/**
 * Random databases by Flink's own RocksDB, as Flink opens it, with what its iterator then gives.
 *
 * <p>{@code java -cp frocksdbjni.jar Oracle.java <directory> <first seed> <number of seeds>} writes for each seed
 * {@code <seed>/checkpoint}, as {@code RocksIncrementalSnapshotStrategy} takes it, and per column family
 * {@code <seed>/<name>.expected}: int length, key, int length, value, in order.
 */
public final class Oracle {
    static final int KEY_GROUPS = 12;
    private static final String[] FAMILIES = {"counts", "lists", "Zustände"};

    private final Random random;
    private final Path directory;
    private final int firstGroup;
    /** The key group of keys that are put once and single-deleted; nothing else touches it. */
    private final int onceGroup;
    private final List<byte[]> once = new ArrayList<>();
    /** How many keys were made that are put once only: the next one's number. */
    int onceKeys;

    /** Keys are of the key groups {@code firstGroup} to {@code firstGroup + groups - 1}. */
    Oracle(long seed, Path directory, int firstGroup, int groups) {
        this.firstGroup = firstGroup;
        this.onceGroup = firstGroup + groups - 1;
        this.random = new Random(seed * 0x9E3779B97F4A7C15L); // neighbouring seeds begin alike
        this.directory = directory;
    }

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        long first = Long.parseLong(args[1]);
        for (long seed = first; seed < first + Long.parseLong(args[2]); seed++) {
            Path directory = Path.of(args[0], Long.toString(seed));
            Files.createDirectories(directory);
            new Oracle(seed, directory, 0, KEY_GROUPS).run();
        }
    }

    private void run() throws Exception {
        Path database = directory.resolve("db");
        List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
        descriptors.add(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, new ColumnFamilyOptions()));
        ColumnFamilyOptions columnOptions = columnOptions();
        for (String name : FAMILIES) {
            descriptors.add(new ColumnFamilyDescriptor(name.getBytes("UTF-8"), columnOptions));
        }
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (DBOptions options =
                        new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
                RocksDB db = RocksDB.open(options, database.toString(), descriptors, handles);
                WriteOptions write = new WriteOptions().setDisableWAL(true)) {
            int steps = 50 + random.nextInt(random.nextInt(10) == 0 ? 6000 : 1200);
            List<Snapshot> snapshots = new ArrayList<>();
            for (int step = 0; step < steps; step++) {
                ColumnFamilyHandle family = handles.get(1 + random.nextInt(2));
                step(db, write, family, columnOptions, step);
                if (random.nextInt(150) == 0) {
                    snapshots.add(db.getSnapshot()); // keeps older versions alive in the files
                }
                if (!snapshots.isEmpty() && random.nextInt(200) == 0) {
                    db.releaseSnapshot(snapshots.remove(0));
                }
            }
            try (Checkpoint checkpoint = Checkpoint.create(db)) {
                checkpoint.createCheckpoint(directory.resolve("checkpoint").toString());
            }
            for (int family = 1; family < handles.size(); family++) {
                dump(db, handles.get(family), directory.resolve(FAMILIES[family - 1] + ".expected"));
            }
            snapshots.forEach(db::releaseSnapshot);
            handles.forEach(ColumnFamilyHandle::close);
        }
        delete(database);
    }

    void step(
            RocksDB db, WriteOptions write, ColumnFamilyHandle family, ColumnFamilyOptions options, int step)
            throws Exception {
        int choice = random.nextInt(1000);
        if (choice < 400) {
            db.put(family, write, key(), value());
        } else if (choice < 750) {
            db.merge(family, write, key(), value());
        } else if (choice < 870) {
            db.delete(family, write, key());
        } else if (choice < 900) {
            // Single deletes are defined for keys put once only.
            if (once.isEmpty() || random.nextBoolean()) {
                byte[] key = ("-once-" + onceKeys++).getBytes("UTF-8");
                key[0] = (byte) onceGroup;
                db.put(family, write, key, value());
                once.add(Arrays.copyOf(key, key.length + 1));
                once.get(once.size() - 1)[key.length] = (byte) family.getID();
            } else {
                byte[] key = once.remove(random.nextInt(once.size()));
                if (key[key.length - 1] == family.getID()) {
                    db.singleDelete(family, write, Arrays.copyOf(key, key.length - 1));
                }
            }
        } else if (choice < 925 && Tables.ingestsAndDeletesRanges()) {
            byte[] a = key();
            byte[] b = key();
            if (Arrays.compareUnsigned(a, b) < 0 && (a[0] > onceGroup || b[0] < onceGroup)) {
                db.deleteRange(family, write, a, b);
            }
        } else if (choice < 975) {
            try (FlushOptions flush = new FlushOptions().setWaitForFlush(true)) {
                db.flush(flush, family);
            }
        } else if (choice < 985) {
            byte[] a = key();
            byte[] b = key();
            if (Arrays.compareUnsigned(a, b) < 0) {
                db.compactRange(family, a, b);
            }
        } else if (choice < 987) {
            db.compactRange(family);
        } else if (choice < 995 && Tables.ingestsAndDeletesRanges()) {
            ingest(db, family, options, step);
        }
    }

    /** Writes a file outside of the database and lets the database take it in, with a global sequence number. */
    private void ingest(RocksDB db, ColumnFamilyHandle family, ColumnFamilyOptions options, int step)
            throws Exception {
        TreeMap<byte[], byte[]> entries = new TreeMap<>(Arrays::compareUnsigned);
        for (int k = 1 + random.nextInt(40); k > 0; k--) {
            entries.put(key(), value());
        }
        String file = directory.resolve("ingest-" + step + ".sst").toString();
        try (Options sstOptions = new Options(new DBOptions(), options);
                EnvOptions environment = new EnvOptions();
                SstFileWriter writer = new SstFileWriter(environment, sstOptions);
                IngestExternalFileOptions ingestion = Tables.ingestion(random)) {
            writer.open(file);
            for (byte[] key : entries.keySet()) {
                int choice = random.nextInt(4);
                if (choice == 0) {
                    writer.delete(key);
                } else if (choice == 1) {
                    writer.merge(key, entries.get(key));
                } else {
                    writer.put(key, entries.get(key));
                }
            }
            writer.finish();
            db.ingestExternalFile(family, List.of(file), ingestion);
        }
    }

    private byte[] key() {
        int size = random.nextInt(30) == 0 ? random.nextInt(2000) : random.nextInt(4);
        byte[] key = new byte[1 + size];
        for (int k = 0; k < key.length; k++) {
            key[k] = (byte) (random.nextInt(8) == 0 ? random.nextInt(256) : random.nextInt(3));
        }
        key[0] = (byte) (firstGroup + random.nextInt(onceGroup - firstGroup));
        return key;
    }

    private byte[] value() {
        int size = random.nextInt(60) == 0 ? random.nextInt(20000) : random.nextInt(20);
        byte[] value = new byte[size];
        if (random.nextBoolean()) {
            random.nextBytes(value);
        } else {
            Arrays.fill(value, (byte) random.nextInt(128));
        }
        return value;
    }

    ColumnFamilyOptions columnOptions() {
        ColumnFamilyOptions options = new ColumnFamilyOptions();
        TableFormatConfig table = Tables.table(random, options);
        CompressionType[] compressions = {
            CompressionType.NO_COMPRESSION, CompressionType.SNAPPY_COMPRESSION, CompressionType.LZ4_COMPRESSION,
            CompressionType.LZ4HC_COMPRESSION, CompressionType.ZLIB_COMPRESSION, CompressionType.ZSTD_COMPRESSION
        };
        return options.setTableFormatConfig(table)
                .setMergeOperatorName("stringappendtest")
                .setCompressionType(compressions[random.nextInt(compressions.length)])
                .setDisableAutoCompactions(random.nextBoolean())
                .setLevelCompactionDynamicLevelBytes(random.nextBoolean())
                .setTargetFileSizeBase(pick(2000, 20000, 1 << 20))
                .setMaxBytesForLevelBase(pick(10000, 100000, 1 << 24))
                .setLevelZeroFileNumCompactionTrigger(2 + random.nextInt(4));
    }

    private long pick(long... values) {
        return values[random.nextInt(values.length)];
    }

    static void dump(RocksDB db, ColumnFamilyHandle family, Path file) throws Exception {
        try (ReadOptions read = new ReadOptions().setTotalOrderSeek(true);
                RocksIterator iterator = db.newIterator(family, read);
                DataOutputStream out =
                        new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file)))) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                out.writeInt(iterator.key().length);
                out.write(iterator.key());
                out.writeInt(iterator.value().length);
                out.write(iterator.value());
            }
            iterator.status();
        }
    }

    static void delete(Path directory) throws IOException {
        try (Stream<Path> paths = Files.walk(directory)) {
            paths.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }
}
