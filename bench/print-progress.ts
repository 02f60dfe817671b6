/** Prints progress and errors to stderr; stdout is for the report. */
export function printProgress(text: string): void {
  process.stderr.write(`${text}\n`)
}
