import { plural, t } from '@lingui/core/macro'
import type { Overview } from '#api/operator/overview.ts'
import { State } from '../../parts/State.tsx'

/** The outcome of the last audit of the ledger. */
export function AuditState({ audit }: { audit: Overview['last_audit'] }) {
  if (audit === null) return <State state="off">{t`no audit yet`}</State>
  if (audit.violations === 0) return <State state="ok">{t`in order`}</State>
  return <State state="danger">{plural(audit.violations, { one: '# violation', other: '# violations' })}</State>
}
