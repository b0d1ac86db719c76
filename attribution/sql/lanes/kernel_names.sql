-- kernel_names: one row a (bucket, kernel function name) over measured verification steps of an
-- attribution folder: launches, sum_ns [ns].
-- reads: kernels_file, measured_steps (process, step, device)
SELECT k.bucket, k.name, count(*) AS launches, CAST(sum(k.end_ns - k.start_ns) AS BIGINT) AS sum_ns
FROM kernels_file AS k
SEMI JOIN measured_steps AS s USING (process, step, device)
GROUP BY ALL
ORDER BY sum_ns DESC, k.name;
