import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.rocksdb.*;

/** Random options for tables, of those that RocksDB 5.17 has in Java. */
final class Tables {
    static BlockBasedTableConfig table(Random random, ColumnFamilyOptions options) {
        ChecksumType[] checksums = ChecksumType.values();
        BlockBasedTableConfig table =
                new BlockBasedTableConfig()
                        .setFormatVersion(random.nextInt(5))
                        .setBlockSize(1L << (6 + random.nextInt(10)))
                        .setBlockRestartInterval(1 << random.nextInt(5))
                        .setMetadataBlockSize(1L << (6 + random.nextInt(7)));
        if (table.formatVersion() > 0) {
            table.setChecksumType(checksums[random.nextInt(checksums.length)]);
        }
        if (random.nextBoolean()) {
            table.setFilter(new BloomFilter(10, false));
        }
        IndexType[] types = IndexType.values();
        table.setIndexType(types[random.nextInt(types.length)]);
        if (table.indexType() == IndexType.kTwoLevelIndexSearch) {
            table.setPartitionFilters(random.nextBoolean());
        } else if (table.indexType() == IndexType.kHashSearch) {
            options.useFixedLengthPrefixExtractor(1);
        }
        return table;
    }

    static IngestExternalFileOptions ingestion(Random random) {
        IngestExternalFileOptions options = new IngestExternalFileOptions();
        options.setMoveFiles(true);
        return options;
    }

    /**
     * RocksDB 5.17 cannot always iterate over files that it took in ("corrupted internal key in DBIter"), and merges
     * operands onto values that a deleted range covers. Flink of its time did neither.
     */
    static boolean ingestsAndDeletesRanges() {
        return false;
    }

    static BlockBasedTableConfig filtered() {
        return new BlockBasedTableConfig().setFilter(new BloomFilter(10, false));
    }

    static List<ColumnFamilyDescriptor> told(String database) throws RocksDBException {
        List<ColumnFamilyDescriptor> told = new ArrayList<>();
        try (DBOptions options = new DBOptions()) {
            OptionsUtil.loadLatestOptions(database, Env.getDefault(), options, told);
        }
        return told;
    }

    /** Iterating verifies checksums, too; there is nothing else for it in this release. */
    static void verify(RocksDB db) {}

    private Tables() {}
}
