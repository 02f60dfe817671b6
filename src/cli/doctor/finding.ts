/** The result of one check. `detail` describes what was found and, if `ok` is false, what to do. */
export interface Finding {
  readonly check: string
  readonly ok: boolean
  readonly detail: string
  /** Set when a start works, but the operator should change something. */
  readonly warning?: true
  /** Set when the check could not be made because of another failure. `ok` is false. */
  readonly skipped?: true
}

/** How long a server may take to answer a check. */
export const CHECK_TIMEOUT_MS = 5_000

/** Runs one check. Its return value becomes the detail of a success, its error the detail of a failure. */
export async function runCheck(check: string, work: () => Promise<string>): Promise<Finding> {
  try {
    return { check, ok: true, detail: await work() }
  } catch (error) {
    return { check, ok: false, detail: (error as Error).message }
  }
}
