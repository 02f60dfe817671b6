import { ActionIcon, Menu } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { OperatorHosters } from '#api/operator/supply.ts'
import { hostersQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { plural, shareText } from '../../format/number-text.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { MoreIcon } from '../../parts/icons.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { PriceDialog } from './PriceDialog.tsx'
import { TrustDialog } from './TrustDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

export type Hoster = OperatorHosters['data'][number]

const states = {
  ...({ applied: 'warn', pending: 'warn', verified: 'warn', active: 'ok' } as const),
  ...({ paused: 'off', suspended: 'off', retired: 'off' } as const),
}

/** The hosters: first those that wait for a decision. */
export function Hosters() {
  const mayOperate = useMayOperate()
  const hosters = useQuery(hostersQuery)
  const [dialog, setDialog] = useState<{ kind: 'suspend' | 'trust' | 'price'; hoster: Hoster } | null>(null)
  const close = () => setDialog(null)
  const change = useWrite<{ hoster: Hoster; state: 'active' | 'suspended' }>(
    ({ hoster, state }) => ({ method: 'PATCH', path: `operator/hosters/${hoster.id}`, body: { state } }),
    {
      areas: ['supply', 'overview'],
      done: (_, { hoster, state }) => `${hoster.name} is ${state}.`,
      onDone: close,
    },
  )
  return (
    <Page title="Hosters">
      <Panel>
        <Loaded query={hosters} height={320}>
          {({ data }) =>
            data.length === 0 ? (
              <EmptyState text="There is no hoster yet. Add one with this command, then activate it here.">
                <code>switchyard hoster add NAME URL --key-file FILE</code>
              </EmptyState>
            ) : (
              <DataTable
                label="Hosters"
                rows={[...data].sort((a, b) => Number(b.state === 'pending') - Number(a.state === 'pending'))}
                keyOf={({ id }) => id}
                columns={[
                  { title: 'Hoster', place: 'name', cell: ({ name }) => name },
                  { title: 'State', cell: ({ state }) => <State state={states[state]}>{state}</State> },
                  {
                    title: 'Trust',
                    align: 'right',
                    isLabelled: true,
                    cell: ({ trust_score }) => trust_score.toFixed(2),
                  },
                  { title: 'Share', align: 'right', isLabelled: true, cell: ({ share }) => shareText(share) },
                  {
                    title: 'Models',
                    cell: ({ models }) =>
                      models.length === 0
                        ? 'none'
                        : models.length > 3
                          ? plural(models.length, 'model')
                          : models.map(({ model }, index) => (
                              <span key={model}>
                                {index > 0 && ', '}
                                <Link to="/operator/models" search={{ model }}>
                                  {model}
                                </Link>
                              </span>
                            )),
                  },
                  {
                    title: 'Address',
                    cell: ({ base_url, has_key }) => (
                      <>
                        <code>{base_url}</code>
                        {!has_key && ' without a key'}
                      </>
                    ),
                  },
                  { title: 'Since', place: 'hidden', cell: ({ created_at }) => <When at={created_at} /> },
                  {
                    title: '',
                    align: 'right',
                    place: 'actions',
                    cell: hoster =>
                      mayOperate && (
                        <Menu position="bottom-end">
                          <Menu.Target>
                            <ActionIcon aria-label={`Actions of ${hoster.name}`}>
                              <MoreIcon />
                            </ActionIcon>
                          </Menu.Target>
                          <Menu.Dropdown>
                            {hoster.state !== 'active' && (
                              <Menu.Item onClick={() => change.mutate({ hoster, state: 'active' })}>Activate</Menu.Item>
                            )}
                            <Menu.Item onClick={() => setDialog({ kind: 'price', hoster })}>Set a price</Menu.Item>
                            <Menu.Item onClick={() => setDialog({ kind: 'trust', hoster })}>Set the trust</Menu.Item>
                            {hoster.state !== 'suspended' && (
                              <Menu.Item color="var(--danger)" onClick={() => setDialog({ kind: 'suspend', hoster })}>
                                Suspend
                              </Menu.Item>
                            )}
                          </Menu.Dropdown>
                        </Menu>
                      ),
                  },
                ]}
              />
            )
          }
        </Loaded>
      </Panel>
      {dialog?.kind === 'price' && <PriceDialog hoster={dialog.hoster} onClose={close} />}
      {dialog?.kind === 'trust' && <TrustDialog hoster={dialog.hoster} onClose={close} />}
      <ConfirmDialog
        isOpen={dialog?.kind === 'suspend'}
        title={`Suspend ${dialog?.hoster.name}?`}
        action="Suspend"
        isBusy={change.isPending}
        onConfirm={() => change.mutate({ hoster: dialog!.hoster, state: 'suspended' })}
        onClose={close}
      >
        <p>It gets no further requests. Running requests end as usual, and what it has earned stays payable.</p>
      </ConfirmDialog>
    </Page>
  )
}
