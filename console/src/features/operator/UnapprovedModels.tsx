import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { unapprovedModelsQuery } from '../../api/operator-queries.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import styles from './operator.module.css'
import { ReasonDialog } from './ReasonDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

type Decision = { readonly model: string; readonly decision: 'approve' | 'refuse' }

/** The model ids that hosters name and may not sell, with the decision about each. Nothing while there are none. */
export function UnapprovedModels() {
  const mayOperate = useMayOperate()
  const { data } = useQuery(unapprovedModelsQuery)
  const [asked, setAsked] = useState<Decision | null>(null)
  if (data === undefined || data.data.length === 0) return null
  return (
    <Panel
      title={t`Ids of hosters' models`}
      aside={<span className={styles.hint}>{t`One decision is good for all hosters`}</span>}
    >
      <DataTable
        label={t`Ids that are not approved`}
        rows={data.data}
        keyOf={({ model }) => model}
        columns={[
          { title: t`Model`, place: 'name', cell: ({ model }) => model, sortBy: ({ model }) => model },
          {
            title: t`State`,
            cell: ({ state, reason }) =>
              state === 'waiting' ? (
                <State state="warn">{t`waits for you`}</State>
              ) : (
                <State state="off">{t`refused: ${reason ?? ''}`}</State>
              ),
            sortBy: ({ state }) => state,
          },
          { title: t`Hosters`, cell: ({ hosters }) => hosters.map(({ name }) => name).join(', ') },
          {
            title: t`Decision`,
            place: 'figure',
            cell: ({ model, state }) =>
              mayOperate && (
                <span className={styles.buttons}>
                  <Button size="xs" onClick={() => setAsked({ model, decision: 'approve' })}>{t`Approve`}</Button>
                  {state === 'waiting' && (
                    <Button
                      size="xs"
                      variant="default"
                      onClick={() => setAsked({ model, decision: 'refuse' })}
                    >{t`Refuse`}</Button>
                  )}
                </span>
              ),
          },
        ]}
      />
      {asked !== null && (
        <ReasonDialog
          title={`${asked.decision === 'approve' ? t`Approve` : t`Refuse`} ${asked.model}`}
          action={asked.decision === 'approve' ? t`Approve` : t`Refuse`}
          isDanger={asked.decision === 'refuse'}
          reader={t`Hosters that offer it read it, and the audit log keeps it.`}
          send={reason => ({ method: 'POST', path: 'operator/model-ids', body: { ...asked, reason } })}
          done={asked.decision === 'approve' ? t`Hosters may sell it.` : t`No hoster may sell it.`}
          onClose={() => setAsked(null)}
        >
          {asked.decision === 'approve'
            ? t`Every hoster may sell a model with this id. Make sure that customers know which model it is.`
            : t`No hoster may sell a model with this id. What runs is finished and paid.`}
        </ReasonDialog>
      )}
    </Panel>
  )
}
