-- Conditions that DuckDB and --where evaluate alike over the rows of tests/helpers/where_rows.py, one per line.

-- logic
b
NOT b
b = TRUE
b <> TRUE
b IS TRUE
b IS NOT TRUE
b IS FALSE
b IS NOT FALSE
b IS NULL
b AND NULL
b OR NULL
NULL
NOT NULL
b < TRUE
c AND b
c OR b
NOT (b AND c)
NOT (b OR c)
b = c
b <> c
b IS DISTINCT FROM c
b IS NOT DISTINCT FROM c
b IN (c, TRUE)
b NOT IN (c, NULL)
coalesce(b, c)
b >= c
b BETWEEN c AND TRUE
(b AND NULL) IS NULL
(b OR NULL) IS NULL
CASE WHEN NULL THEN TRUE ELSE b END
NOT (b IS NULL)

-- integers
i8 = 1
i64 = 9223372036854775807
i64 > 9223372036854775806.5
i64 < 1e30
u64 = 18446744073709551615
u64 > 9223372036854775807
u64 + 1 > 5
u8 - 10 > 0
u8 - u8 = 0
i64 + 1 > 0
i64 / 2 = 0.5
i64 / 0 IS NULL
i64 // 2 = -4
i64 // 2 = 3
i64 % 3 = -1
i64 % 3 = 1
i64 % -3 = 1
i64 = u64
u64 >= 9223372036854775808
u64 < -1
u64 IN (18446744073709551615, 7)
u64 <> i64
u64 > i64
u32 = i32
i64 <= -9223372036854775808
i64 < -9223372036854775808.5
i16 BETWEEN i8 AND i32
u8 - 300 < 0
n + k = 3
n * k < 0
n - k >= 7
n // k IS NULL AND k = 5
n // 3 = -2
i8 % 10 = -8
u64 % 10 = 5
u64 // 2 = 9223372036854775807
n % 3 = -1
n % -3 = 1
n / k > 1
n / 0 > 0
-n / 0 > 0
0 / 0 = CAST('nan' AS DOUBLE)
abs(n) = 7
- n = 7
n * 1.5 = 10.5
"top-10" = 3

-- floats
f64 = 0
f64 = -0.0
f64 < 0
f64 <= 0
f64 > 1
f64 >= 1
f64 < 1
f64 = f64
f64 <> f64
f64 = CAST('NaN' AS DOUBLE)
f64 > CAST('inf' AS DOUBLE)
f64 = CAST('-Infinity' AS DOUBLE)
f32 = 0.1
f32 > 0.1
f32 = CAST(0.1 AS FLOAT)
f32 = f64
f64 = 0.1
f64 < f32
f64 + 1 > 1
f64 / 0 IS NULL
f64 / f64 IS NULL
f64 % 2 = -0.5
f64 % 0 IS NULL
f64 IN (0.1, -2.5)
f64 NOT IN (0.1, NULL)
f64 BETWEEN -1 AND 1
f64 NOT BETWEEN -1 AND 1
f64 IS DISTINCT FROM 0
f64 IS NOT DISTINCT FROM f32
f64 IS DISTINCT FROM f64
f64 IS NOT DISTINCT FROM NULL
f64 <> 0
f64 < CAST('nan' AS DOUBLE)
f64 >= CAST('nan' AS DOUBLE)
f64 <= CAST('nan' AS DOUBLE)
CAST('nan' AS DOUBLE) > f64
f64 BETWEEN 0 AND CAST('nan' AS DOUBLE)
f64 IN (CAST('nan' AS DOUBLE), -2.5)
f64 NOT IN (CAST('nan' AS DOUBLE))
f32 + f32 = CAST(0.2 AS FLOAT)
f32 + 0.1 = 0.2
f32 * 2 = -5
f64 % CAST('inf' AS DOUBLE) = 0.1
f64 - f64 = 0
f64 * 0 = 0
-f64 = 2.5
-f64 < 0
f32 = 0.10000000001
f32 = 1e-1
f32 IN (0.1, 2.5e-1)
f32 BETWEEN 0.1 AND 1e0
i32 = f32
x = d
x > n
x / 0 > 1
16777217 = CAST(16777216 AS FLOAT)
nullif(f64, CAST('nan' AS DOUBLE)) IS NULL
f64 = -0e0
coalesce(f32, 0) = 0.1
CASE WHEN b THEN f32 ELSE 0 END = 0.1
CASE WHEN b THEN f32 ELSE x END = 0.15

-- decimals
d = 1.5
d > 1.49999
d = 0.1
d = f64
d < i64
d + 1 = 2.5
d / 3 = 0.5
d % 1 = 0.5
d % 1 = -0.5
d % -1 = 0.5
d / 0 IS NULL
d38 = 99999999999999999999999999999999999999
d38 > i64
d38 = i64
d38 < 99999999999999999999999999999999999999
d38 >= -99999999999999999999999999999999999999
d = x
d > 0.099999999999
d <> 1.50
d IN (1.5, -2.25, NULL)
d BETWEEN -2 AND 1
d + n = 2.5
d * 2 = 3
d * 0.1 = 0.15
d - 0.1 = 0
-d = 2.25
d / 0 > 1
d % 0.4 = 0.3
d = 1.5e0
d38 = 1e0
abs(d) = 2.25
d38 % 4 = -3

-- rounding
round(d) = 2
round(d) = -2
round(d, 1) = 1.5
round(f64) = -3
round(f64) = -2
round(f64, 1) = 0.1
round(f64, 2) = -2.5
floor(d) = 1
ceil(d) = 2
floor(f64) = -3
ceil(f64) = -2
floor(i64) = 7
abs(d) = 1.5
abs(f64) = 2.5
round(x) = 3
round(x) = 2
round(x, -1) = 0
round(n, -1) = 10
round(f32, 1) = 0.1
round(x, 400) = 1.5
ceil(d) = -1
floor(d) = -3
floor(x) = -1
ceil(x) = -0.0
ceil(n) = 7
abs(x) = 0.5

-- text
s = 'tea'
s < 'b'
s > 'Z'
s >= ''
s LIKE 't%'
s LIKE '%\%%'
s LIKE '%\\%'
s LIKE 'a\%b%' ESCAPE '\'
s LIKE 'a!%b%' ESCAPE '!'
s LIKE '_____\_%' ESCAPE '\'
s LIKE '_ matcha'
s LIKE ''
s LIKE NULL
s NOT LIKE 't%'
s ILIKE 'TE%'
s ILIKE 'CAFÉ'
s ILIKE '% SS %'
s NOT ILIKE 'te_'
s LIKE '%'
s LIKE 'a!!b' ESCAPE '!'
s LIKE 'x!y' ESCAPE '!'
s LIKE '%' ESCAPE ''
s || 'x' = 'teax'
s || NULL IS NULL
s || 1 = 'tea1'
concat(s, NULL) = 'tea'
concat(s, 1) = 'tea1'
lower(s) = 'tea'
upper(s) = 'CAFÉ'
upper(s) = ' SS I '
upper(s) = ' ß I '
length(s) = 4
length(s) = 8
length(s) = 3
trim(s) = 'ß I'
substring(s, 1, 2) = 'te'
substring(s, 0, 2) = 't'
substring(s, -2, 1) = 'e'
substring(s, -2) = 'ea'
substring(s, 2) = 'ea'
substring(s, -5, 3) = 't'
substring(s, 2, -1) = 't'
substring(s, 0) = 'tea'
substring(s, -10) = 'tea'
substr(s, 2) = 'ea'
starts_with(s, 't')
ends_with(s, 'a')
suffix(s, 'a')
prefix(s, 't')
contains(s, 'e')
contains(s, '')
starts_with(s, NULL)
regexp_matches(s, '^t')
regexp_matches(s, 'E')
regexp_full_match(s, 'tea')
s LIKE '%c\d'
s LIKE '%\'
s LIKE '🍵%'
s LIKE '_ matcha_x'
s LIKE '%matcha%x'
s LIKE 'a_b_c_d'
s LIKE 'a$%b$_c%' ESCAPE '$'
s ILIKE '%SS%'
s ILIKE 'A$%B%' ESCAPE '$'
s NOT LIKE '%e%'
s ~~ 't%'
e = 'tea'
e LIKE 't%'
e < s
upper(e) = 'TEA'
lower(s) < 'b'
s > '￿'
s >= '🍵'
length(s) = 10
substring(s, 1, 1) = '🍵'
substring(s, 3, -5) = 'te'
substring(s, 5, -3) = 'ea'
substring(s, -1, -1) = 'e'
substring(s, -1, 5) = 'a'
substring(s, 100) = ''
substring(s FROM 2 FOR 1) = 'e'
s || s = 'teatea'
s || n = 'tea0'
d || 'x' = '1.50x'
b || '!' = 'true!'
dt || '' = '2024-02-29'
concat(s, n, NULL, b) = 'tea0true'
concat(NULL, NULL) = ''
starts_with(s, '')
contains(s, '%')
contains(s, NULL)
regexp_matches(s, '^t.a$')
regexp_matches(s, '(?i)^tea$')
regexp_matches(s, 'matcha.x')
regexp_matches(s, 'matcha\sx')
regexp_full_match(s, 't|tea')
coalesce(s, e) = 'tea'
nullif(s, e) IS NULL
s IN (e, 'tea')
s BETWEEN 'a' AND 'u'
s IS DISTINCT FROM e
num = '1'

-- bytes
bin = 'tea'
bin = 'AAE='
bin = '\x00\x01'::BLOB
bin = '\x00\x01'
bin < '\x80'::BLOB
bin > 'A'::BLOB
bin = bin
bin IN ('tea')
bin >= '\x80'::BLOB
bin = from_base64('AAE=')
bin <> from_base64('/w==')
bin IS NULL
bin IN ('tea', '\xFF')
bin BETWEEN 'a' AND 'z'
CAST('tea' AS BLOB) = bin
CAST(bin AS VARCHAR) = 'a\x00\x27\x5C'
bin IS NOT DISTINCT FROM 'tea'
coalesce(bin, 'x'::BLOB) = 'x'

-- dates and times
dt = '2024-02-29'
dt = DATE '2024-02-29'
dt > '2000-01-01'
dt > '2024-02-29T12:00:00'
dt = '2024-02-29T12:00:00'
dt = '2024-2-29'
dt < TIMESTAMP '2024-02-29 00:00:01'
dt < ts
dt = ts
dt = tz
ts = tz
ts = '2024-02-29 12:30:00'
ts = '2024-02-29T12:30'
ts > '2024-02-29 12:30:00.1'
ts > '2024-02-29'
ts = TIMESTAMP '2024-02-29 12:30:00'
ts = '2024-02-29 12:30:00Z'
tz = '2024-02-29 12:30:00'
tz = '2024-02-29T12:30:00Z'
tz = '2024-02-29 13:30:00+01:00'
tz = TIMESTAMPTZ '2024-02-29 13:30:00+01'
tz = TIMESTAMP '2024-02-29 12:30:00'
tz < '1970-01-01'
ts = '9999-12-31 23:59:59.999999'
t = '12:30:00'
t = TIME '12:30:00'
t = '12:30'
t > '12:30:00.1'
t < '00:00:01'
dt BETWEEN '2000-01-01' AND '2024-12-31'
dt IN ('2024-02-29', '1970-01-01')
dt NOT IN ('2024-02-29', NULL)
year(dt) = 2024
year(ts) = 2024
year(tz) = 1969
month(dt) = 12
day(ts) = 29
hour(ts) = 12
hour(dt) = 0
hour(t) = 12
minute(ts) = 30
second(ts) = 59
extract(year FROM ts) = 2024
date_part('year', ts) = 2024
CAST(ts AS DATE) = '2024-02-29'
CAST(dt AS TIMESTAMP) = '2024-02-29'
CAST('2024-02-29' AS DATE) = dt
CAST(ts AS VARCHAR) = '2024-02-29 12:30:00'
CAST(tz AS VARCHAR) LIKE '2024-02-29 12:30:00+00'
CAST(dt AS VARCHAR) = '2024-02-29'
CAST(t AS VARCHAR) = '12:30:00'
CAST(ts AS TIME) = '12:30'
dt::VARCHAR = '2024-02-29'
ts = '2024-02-29 12:30:00.0'
ts = '2024-02-29 12:30:00.5'
ts = '2024-02-29 13:30:00+01:00'
tz = '2024-02-29 07:30:00-05'
tz > '2024-02-29 23:30:00+12:00'
dt >= ts
tz >= ts
CAST(tz AS DATE) = DATE '2024-02-29'
CAST(ts AS TIME) = TIME '12:30:00.5'
CAST(tz AS TIMESTAMP) = ts
CAST(ts AS TIMESTAMPTZ) = tz
CAST(t AS VARCHAR) = '12:30:00.5'
CAST(ts AS VARCHAR) = '2024-02-29 12:30:00.5'
CAST(tz AS VARCHAR) = '1969-12-31 23:59:59.999999+00'
TRY_CAST(s AS DATE) IS NULL
TRY_CAST('2024-02-30' AS DATE) IS NULL
TRY_CAST('2023-02-29' AS TIMESTAMP) IS NULL
coalesce(dt, DATE '2024-02-29') = '2024-02-29'
CASE WHEN b THEN ts ELSE TIMESTAMP '1970-01-01' END = '1970-01-01'
date_part('month', tz) = 2
extract(minute FROM t) = 30
minute(tz) = 59
second(ts) = 0
dt BETWEEN '0001-01-01' AND '1970-01-01'
ts NOT BETWEEN '1970-01-01' AND '9999-12-31'
t BETWEEN '12:30' AND '23:59:59.999999'
nullif(dt, '1970-01-01') IS NULL

-- structs and names
st.a = 1
st.A = 1
ST.a = 1
st.name = 'x'
st['a'] = 1
st."Name" = 'x'
st IS NULL
st.a IS NULL
(st).a = 1
mixed = 3
MIXED = 3
"mixed" = 3
"MIXED" = 3
ST.A = 1
st.NAME = 'x'
St.In.B = 2
st.in.b IS NULL
st['NAME'] = 'x'
st.in IS NULL
(st).in.b > 0

-- lists and maps
li[1] = 1
li[-1] = 1
li[4] IS NULL
li[1] IS NULL
li IS NULL
len(li) = 3
length(li) = 3
array_length(li) = 3
cardinality(m) = 2
list_contains(li, 1)
array_contains(li, 1)
contains(li, 1)
list_contains(li, NULL)
NOT list_contains(li, 1)
list_has(li, 1)
m['tea'] = 1
m['tea'] IS NULL
map_contains(m, 'tea')
contains(m, 'tea')
li[2] = 2
li[-2] = 2
li[100] IS NULL
li[-100] IS NULL
length(li) = 0
cardinality(m) = 0
m['nope'] IS NULL
m[''] = 0
contains(li, 3)
contains(m, 'x')
map_contains(m, 'x')
list_contains(li, 7)
NOT map_contains(m, 'tea')
li[1] + li[-1] = 4
list_sum(li) > 3
list_max(li) IS NULL
list_min(li) = 1
list_count(li) = 3
list_avg(li) = 2
list_append(li, 9)[-1] = 9
list_prepend(0, li)[1] = 0
list_reverse(li)[1] = 3
m['tea'] > m['x']
array_length(li) = 1

-- choices
CASE WHEN i64 > 0 THEN 'pos' WHEN i64 < 0 THEN 'neg' ELSE 'zero' END = 'pos'
CASE i64 WHEN 1 THEN 'one' END IS NULL
CASE i64 WHEN NULL THEN 'one' ELSE 'x' END = 'x'
CASE WHEN b THEN 1 ELSE 2.5 END = 2.5
CASE WHEN b THEN i8 ELSE f64 END = -2.5
CASE WHEN b THEN s END = 'tea'
CASE WHEN b THEN NULL END IS NULL
IF(b, 1, 2) = 1
coalesce(i64, 0) = 0
coalesce(i64, i8, 0.5) = 0.5
coalesce(s, 'none') = 'none'
coalesce(NULL, NULL) IS NULL
ifnull(i64, 5) = 5
nullif(i64, 1) IS NULL
nullif(s, 'tea') IS NULL
nullif(f64, 0) IS NULL
nullif(NULL, 1) IS NULL
CASE n WHEN 1 THEN TRUE WHEN 7 THEN FALSE ELSE b END
CASE WHEN n > 0 THEN d ELSE x END = 2.5
if(b, s, e) = 'tea'
coalesce(n, k, 0) = 1
coalesce(d, x) = 2.675
nullif(n, 7) = 5
CASE WHEN c THEN n END IS NULL

-- casts
CAST(i64 AS VARCHAR) = '7'
CAST(b AS VARCHAR) = 'true'
CAST(d AS VARCHAR) = '1.50'
CAST(f64 AS VARCHAR) = '0.1'
CAST(f64 AS VARCHAR) = '0.0'
CAST(f64 AS VARCHAR) = '-0.0'
CAST(f64 AS VARCHAR) = 'inf'
CAST(f64 AS VARCHAR) = 'Infinity'
CAST(f64 AS VARCHAR) = 'nan'
CAST(f64 AS VARCHAR) = 'NaN'
CAST(f64 * 1e30 AS VARCHAR) = '-2.5e+30'
CAST(f64 * 1e300 AS VARCHAR) LIKE '1%'
CAST(f32 AS VARCHAR) = '0.1'
CAST(bin AS VARCHAR) = 'tea'
CAST(TRUE AS VARCHAR) = 'true'
CAST(1.50 AS VARCHAR) = '1.50'
CAST(1e3 AS VARCHAR) = '1000.0'
CAST(d AS INT) = 2
CAST(d AS INT) = 1
CAST(d AS BIGINT) = -2
CAST(1.5 AS INT) = 2
CAST(2.5 AS INT) = 2
CAST(2.5 AS INT) = 3
CAST(-1.5 AS INT) = -2
CAST(d AS DOUBLE) = 1.5
TRY_CAST(i64 AS TINYINT) IS NULL
TRY_CAST(s AS DATE) IS NULL
CAST(i8 AS SMALLINT) = 7
CAST(i8 AS INTEGER) = 7
CAST(i64 AS HUGEINT) = 7
CAST(i64 AS DECIMAL(38, 2)) = 7
CAST(d AS DECIMAL) = 2
CAST(d AS DECIMAL) = 1.5
CAST(b AS INT) = 1
CAST(s AS VARCHAR) = 'tea'
CAST(f64 AS FLOAT) = 0.1
CAST(0.1 AS FLOAT) = 0.1
CAST('1' AS INT) = i64
i64::VARCHAR = '7'
CAST(d AS INT) = -2
TRY_CAST(f64 AS INT) = -2
TRY_CAST(f64 AS INT) IS NULL
d > TRY_CAST('inf' AS INT)
(d38 = TRY_CAST(CAST('nan' AS DOUBLE) AS INT)) IS NULL
(n < TRY_CAST('' AS DECIMAL(9, 2))) IS NULL
TRY_CAST(f64 AS BIGINT) = 0
TRY_CAST(num AS INT) = 100
TRY_CAST(num AS INT) = 2
TRY_CAST(num AS DECIMAL(3, 1)) = 2.4
TRY_CAST(num AS DOUBLE) = 0.5
TRY_CAST(s AS DOUBLE) IS NULL
TRY_CAST(i64 AS TINYINT) = 7
TRY_CAST(i64 AS UTINYINT) IS NULL
TRY_CAST(u64 AS BIGINT) IS NULL
CAST(i64 AS HUGEINT) = 9223372036854775807
CAST(n AS SMALLINT) = 12
CAST(x AS DECIMAL(18, 1)) = 2.7
CAST(d AS DECIMAL(18, 1)) = -2.3
CAST(d AS DECIMAL) = 0.1
CAST(0.12345 AS DECIMAL) = 0.123
TRY_CAST(d AS DECIMAL(3, 2)) IS NULL
CAST(i64 AS DOUBLE) = 9223372036854775807
CAST(i32 AS FLOAT) = 2147483647
CAST(x AS FLOAT) = 0.15
CAST(d AS FLOAT) = 0.1
CAST(b AS INT) = 0
CAST(f64 AS VARCHAR) = '-2.5'
CAST(f64 AS VARCHAR) = '-inf'
CAST(x AS VARCHAR) = '1e+16'
CAST(u64 AS VARCHAR) = '18446744073709551615'
CAST(d38 AS VARCHAR) = '99999999999999999999999999999999999999'
CAST(0.00000001 AS VARCHAR) = '0.00000001'
n::VARCHAR || '' = '7'
CAST(e AS VARCHAR) = 'tea'

-- sets and ranges
i8 = 7.0
i8 = 7.5
i8 IN (7, 7.5)
i64 IN (1, NULL)
i64 NOT IN (1, NULL)
i64 NOT IN (1, 2)
NULL IN (1)
NULL NOT IN (1)
i64 IN (i8, i16)
i64 IN (NULL)
s IN ('tea', 'TEA')
i64 BETWEEN 1 AND 7
i64 BETWEEN 7 AND 1
i64 BETWEEN NULL AND 1
i64 NOT BETWEEN NULL AND 1
NULL BETWEEN 1 AND 2
i64 BETWEEN i8 AND i16
i64 IS DISTINCT FROM NULL
i64 IS NOT DISTINCT FROM i8
i64 IS NOT DISTINCT FROM 7
NULL IS NOT DISTINCT FROM NULL
n IN (1, NULL, 7)
n NOT IN (1, 7)
n IN (k, 7)
7 IN (n, k)
n BETWEEN k AND 7
n BETWEEN 1 AND NULL
NOT n BETWEEN 0 AND 5

-- precedence
(i64 = 1) IS NULL
i64 = 1 IS NULL
i64 IS NULL = b
NOT i64 = 1
NOT b = TRUE
NOT NOT b
i64 = 1 OR i64 = 7 AND b
i64 + 1 * 2 = 9
2 - 1 - 1 = 0
8 / 4 / 2 = 1
2 * 3 % 4 = 2
-7 % 3 = -1
-7 // 2 = -4
-7 // 2 = -3
n = 1 IS NOT NULL
b = c IS NULL
NOT n = 1 AND b
n + 2 * 3 - 1 = 12
n - 1 - 1 = 5
12 / 2 / 3 = 2
n % 5 * 2 = 4
s || 'x' LIKE 't%x'
s || 1 + 1 = 'tea2'
NOT s LIKE 't%' AND b
n IN (1) = b
b OR c AND n = 7

-- literals
1e400 > 0
i64 < 1e400
1_000 = 1000
i64 = 1_000
'it''s' = 'it''s'
$$a$$ = 'a'
i64 == 7
i64 != 7
i64 <> 7
i64 ISNULL
i64 NOTNULL
i64 IS UNKNOWN
b IS UNKNOWN
mod(i64, 3) = 1
'2024-02-29' < '2024-03-01'
-0.0 = 0.0
0.1 + 0.2 = 0.3
1 / 3 = 0.3333333333333333
1.0 / 3.0 > 0.33333333333333333
10 / 4 = 2.5
10 // 4 = 2
3.7 % 1 = 0.7
1e0 / 3 = 1 / 3
9223372036854775807 + 1 > 0
9223372036854775808 > 0
i64 = 9223372036854775808
99999999999999999999999999999999999999999 > 0
f64 = 9007199254740993
i64 > f64
i64 = f64
9007199254740993 = CAST(9007199254740992 AS DOUBLE)
i64 = 7 -- comment
i64 = 7 /* c */
1_000 + n = 1007
$$tea$$ = s
n = 7 -- a comment
n = /* a comment */ 7
n = .7e1
n = 7.
'🍵' < s
'it''s' <> s

-- as of DuckDB 2
-i64 > 0
f64 = 0.1000000000000000055511151231257827
round(f64, -1) = CAST('inf' AS DOUBLE)
round(f64, -1) = CAST('nan' AS DOUBLE)
s ~ 't.*'
s ~ '^t'
cardinality(li) = 2
-i64 + 1 = 8
- - i64 = 7
