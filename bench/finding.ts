import type { Tally } from './tally.ts'

/** The result of one check after a run. */
export type Finding = { ok: boolean; text: string }

/** Checks that every request was answered completely. */
export function requestsFinding(name: string, { sent, ok, failed }: Tally): Finding {
  return { ok: failed === 0, text: `${name}: ${sent} requests sent, ${ok} answered completely, ${failed} failed` }
}

/** The section of a report that lists all checks. */
export function checksSection(findings: readonly Finding[]): string {
  return `## Checks\n\n${findings.map(({ ok, text }) => `- ${ok ? 'ok' : '**failed**'}: ${text}`).join('\n')}`
}

/** Throws when a check failed: the figures cannot be trusted then. */
export function assertAllOk(findings: readonly Finding[]): void {
  const failed = findings.filter(({ ok }) => !ok)
  if (failed.length > 0)
    throw new Error(`checks failed, so the figures cannot be trusted: ${failed.map(({ text }) => text).join('; ')}`)
}
