import type { ReactNode } from 'react'
import type { OwnTrust } from '../api/hoster-queries.ts'
import { countText } from '../format/number-text.ts'
import { DataTable } from './DataTable.tsx'
import { State } from './State.tsx'

type Audit = Omit<OwnTrust['last_audits'][number], 'day'>

export const auditTexts = {
  meter: 'token report',
  canary: 'known answer',
  fingerprint: 'fingerprint',
  agreement: 'agreement',
  sampling: 'sampling',
  shadow: 'comparison',
} as const

/** Audits of a hoster. @param props.when when an audit was, as exactly as the reader may know it */
export function AuditTable<Row extends Audit>({
  audits,
  when,
}: {
  audits: readonly Row[]
  when: { title: string; cell: (audit: Row) => ReactNode }
}) {
  return (
    <DataTable
      label="Last audits"
      rows={audits.map((audit, index) => ({ audit, index }))}
      keyOf={({ index }) => String(index)}
      columns={[
        { title: when.title, cell: ({ audit }) => when.cell(audit) },
        { title: 'Kind', place: 'name', cell: ({ audit }) => auditTexts[audit.kind] },
        { title: 'Model', cell: ({ audit }) => audit.model },
        {
          title: 'Result',
          place: 'figure',
          cell: ({ audit: { passed } }) =>
            passed === null ? (
              <State state="off">not judged</State>
            ) : (
              <State state={passed ? 'ok' : 'danger'}>{passed ? 'passed' : 'failed'}</State>
            ),
        },
        { title: 'Figure', align: 'right', isLabelled: true, cell: ({ audit }) => audit.statistic.toFixed(3) },
        { title: 'Sample', align: 'right', isLabelled: true, cell: ({ audit }) => countText(audit.sample) },
      ]}
    />
  )
}
