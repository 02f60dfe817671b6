import { plural, t } from '@lingui/core/macro'
import { ActionIcon, Button, Menu } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { OperatorHosters } from '#api/operator/supply.ts'
import { hosterFundsQuery, hostersQuery } from '../../api/operator-queries.ts'
import { shareText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { InviteDialog } from '../../parts/InviteDialog.tsx'
import { MoreIcon } from '../../parts/icons.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Balance } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
import { hosterMarks } from './hoster-marks.ts'
import { PriceDialog } from './PriceDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

export type Hoster = OperatorHosters['data'][number]

/** The name in place of an address: see src/market/supply/hosters/hosters.ts. */
const AGENT_HOST = 'agent.invalid'

/** The hosters: first those that wait for an approval. */
export function Hosters() {
  const mayOperate = useMayOperate()
  const hosters = useQuery(hostersQuery)
  const funds = useQuery(hosterFundsQuery)
  const balances = new Map(funds.data?.data.map(({ hoster_id, balance_usd }) => [hoster_id, balance_usd]))
  const [priced, setPriced] = useState<Hoster | null>(null)
  const [isInviting, setInviting] = useState(false)
  return (
    <Page
      title={t`Hosters`}
      actions={mayOperate && <Button onClick={() => setInviting(true)}>{t`Invite a hoster`}</Button>}
    >
      <Panel>
        <Loaded query={hosters} height={320}>
          {({ data }) =>
            data.length === 0 ? (
              <EmptyState
                text={t`There is no hoster yet. People apply in the menu with their name, you invite one, or you add one with this command.`}
              >
                <code>switchyard hoster add NAME URL --key-file FILE</code>
              </EmptyState>
            ) : (
              <DataTable
                label={t`Hosters`}
                rows={[...data].sort((a, b) => urgency(a) - urgency(b))}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: t`Hoster`,
                    place: 'name',
                    cell: ({ id, name }) => (
                      <Link to="/operator/hosters/$hosterId" params={{ hosterId: id }}>
                        {name}
                      </Link>
                    ),
                    sortBy: ({ name }) => name,
                  },
                  {
                    title: t`State`,
                    cell: ({ state }) => (
                      <State state={hosterMarks[state]}>
                        {state === 'verified' ? t`waits for approval` : codeText(state)}
                      </State>
                    ),
                    sortBy: ({ state }) => state,
                  },
                  {
                    title: t`Trust`,
                    align: 'right',
                    cell: ({ trust_score }) => trust_score.toFixed(2),
                    sortBy: ({ trust_score }) => trust_score,
                  },
                  {
                    title: t`Share`,
                    align: 'right',
                    cell: ({ share }) => shareText(share),
                    sortBy: ({ share }) => share,
                  },
                  {
                    title: t`Balance`,
                    align: 'right',
                    cell: ({ id }) => <HosterBalance usd={balances.get(id)} />,
                    sortBy: ({ id }) => balances.get(id) ?? null,
                  },
                  {
                    title: t`Models`,
                    cell: ({ models }) =>
                      models.length === 0
                        ? t`none`
                        : models.length > 3
                          ? plural(models.length, { one: '# model', other: '# models' })
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
                    title: t`Address`,
                    cell: ({ base_url, has_key }) =>
                      new URL(base_url).hostname === AGENT_HOST ? (
                        t`connects by an agent`
                      ) : (
                        <>
                          <code>{base_url}</code>
                          {!has_key && t` without a key`}
                        </>
                      ),
                  },
                  {
                    title: t`Since`,
                    place: 'hidden',
                    cell: ({ created_at }) => <When at={created_at} />,
                    sortBy: ({ created_at }) => created_at,
                  },
                  {
                    title: '',
                    align: 'right',
                    place: 'actions',
                    cell: hoster =>
                      mayOperate && (
                        <Menu position="bottom-end">
                          <Menu.Target>
                            <ActionIcon aria-label={t`Actions of ${hoster.name}`}>
                              <MoreIcon />
                            </ActionIcon>
                          </Menu.Target>
                          <Menu.Dropdown>
                            <Menu.Item onClick={() => setPriced(hoster)}>{t`Set a price`}</Menu.Item>
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
      {isInviting && (
        <InviteDialog
          title={t`Invite a hoster`}
          path="operator/hosters"
          areas={['supply']}
          roles={[]}
          newName={{ label: t`Name of the hoster`, description: t`Customers see it.` }}
          onClose={() => setInviting(false)}
        />
      )}
      {priced !== null && <PriceDialog hoster={priced} onClose={() => setPriced(null)} />}
    </Page>
  )
}

/** What a hoster has earned and was not paid yet. */
function HosterBalance({ usd }: { usd: number | undefined }) {
  return usd === undefined ? '–' : <Balance usd={usd} />
}

/** Those that wait for the operator first, then those on their way, then the rest. */
function urgency({ state }: Hoster): number {
  if (state === 'verified') return 0
  return state === 'pending' || state === 'applied' ? 1 : 2
}
