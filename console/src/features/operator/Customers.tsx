import { t } from '@lingui/core/macro'
import { Button, TextInput } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { type CustomerFilter, customersQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { countText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Balance } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import type { SortOrder } from '../../parts/sort-rows.ts'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
import styles from './operator.module.css'
import { SearchFilters, useSearchText } from './SearchFilters.tsx'
import { useMayOperate } from './use-may-operate.ts'

/** All customers, with balance and spend. */
export function Customers() {
  const mayOperate = useMayOperate()
  const navigate = useNavigate()
  const { text, setText, search } = useSearchText()
  const [state, setState] = useState('')
  const [isAdding, setAdding] = useState(false)
  const [order, setOrder] = useState<SortOrder | null>(null)
  const customers = useInfiniteQuery(customersQuery({ search, state, ...sortOf(order) }))
  const isFiltered = search !== '' || state !== ''
  return (
    <Page
      title={t`Customers`}
      actions={mayOperate && <Button onClick={() => setAdding(true)}>{t`Add a customer`}</Button>}
    >
      <SearchFilters
        search={{ text, setText, description: t`E-mail address, name of a member, or id` }}
        choice={{
          label: t`State`,
          description: t`Of the customer`,
          data: [
            { value: '', label: t`All` },
            { value: 'active', label: t`Active` },
            { value: 'paused', label: t`Paused` },
            { value: 'deleted', label: t`Deleted` },
          ],
          value: state,
          onChange: value => setState(value ?? ''),
        }}
      />
      <Panel>
        <Loaded query={customers} height={400}>
          {({ pages }) => {
            // A customer whose figure changes between two pages may be on both.
            const byId = new Map(pages.flatMap(({ data }) => data).map(customer => [customer.id, customer]))
            const rows = [...byId.values()]
            if (rows.length === 0) {
              return (
                <EmptyState text={isFiltered ? t`No customer matches these filters.` : t`There is no customer yet.`}>
                  {mayOperate && !isFiltered && <Button onClick={() => setAdding(true)}>{t`Add a customer`}</Button>}
                </EmptyState>
              )
            }
            return (
              <>
                <DataTable
                  label={t`Customers`}
                  sorting={{ order, onChange: setOrder }}
                  hasMore={customers.hasNextPage}
                  rows={rows}
                  keyOf={({ id }) => id}
                  onOpen={({ id }) =>
                    void navigate({ to: '/operator/customers/$customerId', params: { customerId: id } })
                  }
                  columns={[
                    {
                      title: t`Customer`,
                      place: 'name',
                      cell: ({ id, email }) => (
                        <Link to="/operator/customers/$customerId" params={{ customerId: id }}>
                          {email ?? t`deleted`}
                        </Link>
                      ),
                      sortKey: 'email',
                    },
                    { title: t`Tier`, cell: ({ tier }) => tier },
                    {
                      title: t`State`,
                      cell: ({ state: each }) => (
                        <State state={each === 'active' ? 'ok' : each === 'paused' ? 'warn' : 'off'}>
                          {codeText(each)}
                        </State>
                      ),
                    },
                    {
                      title: t`Requests, 30 days`,
                      align: 'right',
                      cell: ({ requests_30d }) => countText(requests_30d),
                      sortKey: 'requests',
                    },
                    {
                      title: t`Spent, 30 days`,
                      align: 'right',
                      cell: ({ spent_30d_usd }) => <Balance usd={spent_30d_usd} />,
                      sortKey: 'spent',
                    },
                    {
                      title: t`Since`,
                      place: 'hidden',
                      cell: ({ created_at }) => <When at={created_at} />,
                      sortKey: 'created',
                    },
                    { title: t`People`, align: 'right', place: 'hidden', cell: ({ people }) => countText(people) },
                    { title: t`Keys`, align: 'right', place: 'hidden', cell: ({ keys }) => countText(keys) },
                    {
                      title: t`Balance`,
                      align: 'right',
                      place: 'figure',
                      cell: ({ balance_usd }) => <Balance usd={balance_usd} />,
                      sortKey: 'balance',
                    },
                  ]}
                />
                {customers.hasNextPage && (
                  <div className={styles.more}>
                    <Button
                      variant="default"
                      loading={customers.isFetchingNextPage}
                      onClick={() => void customers.fetchNextPage()}
                    >{t`Show more`}</Button>
                  </div>
                )}
              </>
            )
          }}
        </Loaded>
      </Panel>
      {isAdding && <NewCustomer onClose={() => setAdding(false)} />}
    </Page>
  )
}

/** The columns are named after what the gateway sorts by. */
function sortOf(order: SortOrder | null): CustomerFilter {
  return order === null ? {} : { sort: order.column, order: order.isDescending ? 'desc' : 'asc' }
}

function NewCustomer({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate()
  const [email, setEmail] = useState('')
  const add = useWrite<void, { id: string }>(() => ({ method: 'POST', path: 'operator/customers', body: { email } }), {
    areas: ['customers'],
    done: t`${email} is a customer now.`,
    onDone: ({ id }) => void navigate({ to: '/operator/customers/$customerId', params: { customerId: id } }),
    showsError: true,
  })
  return (
    <FormDialog title={t`Add a customer`} action={t`Add`} sending={add} onSubmit={() => add.mutate()} onClose={onClose}>
      <TextInput
        label={t`E-mail address for bills`}
        description={t`The customer gets the signup credit. Invite people afterwards.`}
        type="email"
        required
        value={email}
        onChange={event => setEmail(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  )
}
