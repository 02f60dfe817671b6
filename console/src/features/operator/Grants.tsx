import { t } from '@lingui/core/macro'
import { Button, SegmentedControl } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { grantsQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { chargeText } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
import styles from './operator.module.css'
import { useMayOperate } from './use-may-operate.ts'

/** The gateway lists no more. */
const LISTED_MAX = 100

/** Grants of credit: those that wait for a second operator, or all. */
export function Grants() {
  const mayOperate = useMayOperate()
  const [shown, setShown] = useState<'waiting' | 'all'>('waiting')
  const grants = useQuery(grantsQuery(shown))
  const decide = useWrite<{ id: string; decision: 'approve' | 'reject' }>(
    ({ id, decision }) => ({ method: 'POST', path: `operator/grants/${id}/${decision}`, body: {} }),
    {
      areas: ['grants', 'customers', 'overview'],
      done: (_, { decision }) => (decision === 'approve' ? t`The credit is granted.` : t`The grant is rejected.`),
    },
  )
  return (
    <Page title={t`Grants`}>
      <div>
        <SegmentedControl
          aria-label={t`Which grants`}
          data={[
            { value: 'waiting', label: t`Waiting` },
            { value: 'all', label: t`All` },
          ]}
          value={shown}
          onChange={value => setShown(value as 'waiting' | 'all')}
        />
      </div>
      <Panel>
        <Loaded query={grants} height={160}>
          {({ data }) =>
            data.length === 0 ? (
              <EmptyState
                text={
                  shown === 'waiting' ? t`No grant waits for a second operator.` : t`No credit was granted here yet.`
                }
              >
                <Link to="/operator/customers">{t`Choose a customer to grant credit to`}</Link>
              </EmptyState>
            ) : (
              <DataTable
                label={t`Grants`}
                hasMore={data.length >= LISTED_MAX}
                rows={data}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: t`Customer`,
                    place: 'name',
                    cell: ({ customer_id, email }) => (
                      <Link to="/operator/customers/$customerId" params={{ customerId: customer_id }}>
                        {email ?? t`deleted`}
                      </Link>
                    ),
                    sortBy: ({ email }) => email,
                  },
                  { title: t`Reason`, cell: ({ reason, ref }) => `${reason} (${ref})` },
                  {
                    title: t`Kind`,
                    cell: ({ is_promotion }) => (is_promotion ? t`promotion` : t`paid`),
                  },
                  {
                    title: t`Asked by`,
                    cell: ({ requested_by }) => requested_by,
                    sortBy: ({ requested_by }) => requested_by,
                  },
                  {
                    title: t`Time`,
                    cell: ({ requested_at }) => <When at={requested_at} />,
                    sortBy: ({ requested_at }) => requested_at,
                  },
                  {
                    title: t`State`,
                    cell: ({ state }) => (
                      <State state={state === 'granted' ? 'ok' : state === 'waiting' ? 'warn' : 'off'}>
                        {codeText(state)}
                      </State>
                    ),
                    sortBy: ({ state }) => state,
                  },
                  {
                    title: 'USD',
                    align: 'right',
                    place: 'figure',
                    cell: ({ amount_usd }) => chargeText(amount_usd),
                    sortBy: ({ amount_usd }) => amount_usd,
                  },
                  {
                    title: '',
                    align: 'right',
                    cell: ({ id, state, is_own }) =>
                      mayOperate &&
                      state === 'waiting' && (
                        <div className={styles.buttons}>
                          {!is_own && (
                            <Button
                              size="compact-sm"
                              onClick={() => decide.mutate({ id, decision: 'approve' })}
                            >{t`Approve`}</Button>
                          )}
                          <Button
                            size="compact-sm"
                            variant="default"
                            onClick={() => decide.mutate({ id, decision: 'reject' })}
                          >
                            {is_own ? t`Withdraw` : t`Reject`}
                          </Button>
                        </div>
                      ),
                  },
                ]}
              />
            )
          }
        </Loaded>
      </Panel>
    </Page>
  )
}
