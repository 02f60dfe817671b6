import { mkdirSync, writeFileSync } from 'node:fs'

/** The kinds of reports in bench/results; each has one file, `<kind>.md`. */
export type ReportKind =
  | 'benchmark'
  | 'usage'
  | 'console'
  | 'soak'
  | 'storage'
  | 'workers'
  | 'telemetry'
  | 'hostile'
  | 'burst'
  | 'answers'
  | 'dialects'
  | 'routing'
  | 'auto'
  | 'chaos'
  | 'planted-bugs'
  | 'planted-sql-bugs'
  | 'planted-code-bugs'
  | 'simulator'
  | 'market'
  | 'postgres'
  | 'patroni'
  | 'cells'

/** The path of a report relative to the root of the repository. */
export const reportPath = (kind: ReportKind): string => `bench/results/${kind}.md`

/** Writes a report and replaces the previous one of that kind, which stays in the history of git. Returns its path. */
export function writeReport(kind: ReportKind, text: string): string {
  const folder = new URL('results/', import.meta.url)
  mkdirSync(folder, { recursive: true })
  writeFileSync(new URL(`${kind}.md`, folder), text)
  return reportPath(kind)
}
