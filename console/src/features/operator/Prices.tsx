import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { PriceGroups } from '#api/operator/price-groups.ts'
import { priceGroupsQuery } from '../../api/operator-queries.ts'
import { countText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { AssignPricesDialog } from './AssignPricesDialog.tsx'
import styles from './operator.module.css'
import { PriceGroupDialog } from './PriceGroupDialog.tsx'
import { rulesText } from './price-rules-text.ts'
import { ReasonDialog } from './ReasonDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

type Group = PriceGroups['data'][number]
type Open =
  | { readonly kind: 'write' | 'remove'; readonly group: Group | null }
  | { readonly kind: 'tier'; readonly tier: string }

/** The price groups, and the account tiers that have one. */
export function Prices() {
  const groups = useQuery(priceGroupsQuery)
  const mayOperate = useMayOperate()
  const [open, setOpen] = useState<Open | null>(null)
  const close = () => setOpen(null)
  return (
    <Page title={t`Prices`}>
      <p
        className={styles.hint}
      >{t`A price group is a discount, a markup, or prices of single models, for customers and account tiers. It changes the prices of your own servers and of clouds; hosters sell at their own prices to all customers.`}</p>
      {mayOperate && (
        <div className={styles.buttons}>
          <Button onClick={() => setOpen({ kind: 'write', group: null })}>{t`Add a price group`}</Button>
        </div>
      )}
      <Loaded query={groups} height={400}>
        {({ data, tiers }) => (
          <>
            <Panel title={t`Price groups`}>
              {data.length === 0 ? (
                <EmptyState text={t`All customers pay the list prices.`} />
              ) : (
                <DataTable
                  label={t`Price groups`}
                  rows={data}
                  keyOf={({ name }) => name}
                  columns={[
                    {
                      title: t`Name`,
                      place: 'name',
                      cell: ({ name, version }) => t`${name}, version ${version}`,
                      sortBy: ({ name }) => name,
                    },
                    {
                      title: t`Percent`,
                      align: 'right',
                      place: 'figure',
                      cell: ({ percent }) => `${percent} %`,
                      sortBy: ({ percent }) => Number(percent),
                    },
                    {
                      title: t`Models`,
                      cell: ({ models }) => rulesText(models).replaceAll('\n', ', ') || '–',
                    },
                    {
                      title: t`Customers`,
                      align: 'right',
                      cell: ({ customers }) => countText(customers),
                      sortBy: ({ customers }) => customers,
                    },
                    {
                      title: '',
                      align: 'right',
                      place: 'actions',
                      cell: group =>
                        mayOperate && (
                          <div className={styles.buttons}>
                            <Button
                              variant="default"
                              size="compact-sm"
                              onClick={() => setOpen({ kind: 'write', group })}
                            >
                              <Trans>
                                Change<span className="visually-hidden"> {group.name}</span>
                              </Trans>
                            </Button>
                            <Button
                              variant="default"
                              size="compact-sm"
                              onClick={() => setOpen({ kind: 'remove', group })}
                            >
                              <Trans>
                                Remove<span className="visually-hidden"> {group.name}</span>
                              </Trans>
                            </Button>
                          </div>
                        ),
                    },
                  ]}
                />
              )}
            </Panel>
            <Panel title={t`Account tiers`}>
              <DataTable
                label={t`Account tiers`}
                rows={tiers}
                keyOf={tier => tier}
                columns={[
                  { title: t`Tier`, place: 'name', cell: tier => tier, sortBy: tier => tier },
                  {
                    title: t`Price group`,
                    place: 'figure',
                    cell: tier => groupOf(data, tier) ?? t`list prices`,
                  },
                  {
                    title: '',
                    align: 'right',
                    place: 'actions',
                    cell: tier =>
                      mayOperate && (
                        <Button variant="default" size="compact-sm" onClick={() => setOpen({ kind: 'tier', tier })}>
                          <Trans>
                            Change<span className="visually-hidden"> {tier}</span>
                          </Trans>
                        </Button>
                      ),
                  },
                ]}
              />
            </Panel>
            {open?.kind === 'write' && <PriceGroupDialog group={open.group} onClose={close} />}
            {open?.kind === 'remove' && open.group !== null && <RemoveDialog group={open.group} onClose={close} />}
            {open?.kind === 'tier' && (
              <AssignPricesDialog
                title={t`Prices of the tier ${open.tier}`}
                path={`tier-price-groups/${open.tier}`}
                none={t`None: list prices`}
                names={data.map(({ name }) => name)}
                current={groupOf(data, open.tier) ?? null}
                onClose={close}
              />
            )}
          </>
        )}
      </Loaded>
    </Page>
  )
}

const groupOf = (groups: readonly Group[], tier: string) => groups.find(({ tiers }) => tiers.includes(tier))?.name

function RemoveDialog({ group: { name, version }, onClose }: { group: Group; onClose: () => void }) {
  return (
    <ReasonDialog
      title={t`Remove ${name}`}
      action={t`Remove`}
      isDanger
      reader={t`The audit log keeps it.`}
      send={reason => ({ method: 'DELETE', path: `operator/price-groups/${name}`, body: { version, reason } })}
      done={t`The price group is removed.`}
      onClose={onClose}
    >{t`Receipts keep its name and its versions. Customers and tiers that have it need another one first.`}</ReasonDialog>
  )
}
