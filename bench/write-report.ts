import { mkdirSync, writeFileSync } from 'node:fs'

/** The kinds of reports in bench/results; each has one file, `<kind>.md`. */
export type ReportKind =
  | 'benchmark'
  | 'usage'
  | 'console'
  | 'soak'
  | 'storage'
  | 'workers'
  | 'hostile'
  | 'answers'
  | 'dialects'
  | 'routing'
  | 'auto'
  | 'chaos'
  | 'planted-bugs'
  | 'planted-sql-bugs'
  | 'simulator'
  | 'market'

/**
 * Writes `bench/results/<kind>.md` and replaces the previous report of that kind, which stays in the history of git. Returns the path
 * relative to the root of the repository.
 */
export function writeReport(kind: ReportKind, text: string): string {
  const folder = new URL('results/', import.meta.url)
  mkdirSync(folder, { recursive: true })
  writeFileSync(new URL(`${kind}.md`, folder), text)
  return `bench/results/${kind}.md`
}
