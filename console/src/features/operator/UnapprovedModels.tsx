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
      title="Ids of hosters' models"
      aside={<span className={styles.hint}>One decision is good for all hosters</span>}
    >
      <DataTable
        label="Ids that are not approved"
        rows={data.data}
        keyOf={({ model }) => model}
        columns={[
          { title: 'Model', place: 'name', cell: ({ model }) => model },
          {
            title: 'State',
            cell: ({ state, reason }) =>
              state === 'waiting' ? (
                <State state="warn">waits for you</State>
              ) : (
                <State state="off">{`refused: ${reason}`}</State>
              ),
          },
          { title: 'Hosters', cell: ({ hosters }) => hosters.map(({ name }) => name).join(', ') },
          {
            title: 'Decision',
            place: 'figure',
            isLabelled: true,
            cell: ({ model, state }) =>
              mayOperate && (
                <span className={styles.buttons}>
                  <Button size="xs" onClick={() => setAsked({ model, decision: 'approve' })}>
                    Approve
                  </Button>
                  {state === 'waiting' && (
                    <Button size="xs" variant="default" onClick={() => setAsked({ model, decision: 'refuse' })}>
                      Refuse
                    </Button>
                  )}
                </span>
              ),
          },
        ]}
      />
      {asked !== null && (
        <ReasonDialog
          title={`${asked.decision === 'approve' ? 'Approve' : 'Refuse'} ${asked.model}`}
          action={asked.decision === 'approve' ? 'Approve' : 'Refuse'}
          isDanger={asked.decision === 'refuse'}
          reader="Hosters that offer it read it, and the audit log keeps it."
          send={reason => ({ method: 'POST', path: 'operator/model-ids', body: { ...asked, reason } })}
          done={asked.decision === 'approve' ? 'Hosters may sell it.' : 'No hoster may sell it.'}
          onClose={() => setAsked(null)}
        >
          {asked.decision === 'approve'
            ? 'Every hoster may sell a model with this id. Make sure that customers know which model it is.'
            : 'No hoster may sell a model with this id. What runs is finished and paid.'}
        </ReasonDialog>
      )}
    </Panel>
  )
}
