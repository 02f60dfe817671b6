/** Progress and faults; stdout is for the report. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
