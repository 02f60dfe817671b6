import { Button, TextInput } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { customersQuery } from '../../api/operator-queries.ts'
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
  const customers = useInfiniteQuery(customersQuery({ search, state }))
  const isFiltered = search !== '' || state !== ''
  return (
    <Page title="Customers" actions={mayOperate && <Button onClick={() => setAdding(true)}>Add a customer</Button>}>
      <SearchFilters
        search={{ text, setText, description: 'E-mail address, name of a member, or id' }}
        choice={{
          label: 'State',
          description: 'Of the customer',
          data: [
            { value: '', label: 'All' },
            { value: 'active', label: 'Active' },
            { value: 'paused', label: 'Paused' },
            { value: 'deleted', label: 'Deleted' },
          ],
          value: state,
          onChange: value => setState(value ?? ''),
        }}
      />
      <Panel>
        <Loaded query={customers} height={400}>
          {({ pages }) => {
            const rows = pages.flatMap(({ data }) => data)
            if (rows.length === 0) {
              return (
                <EmptyState text={isFiltered ? 'No customer matches these filters.' : 'There is no customer yet.'}>
                  {mayOperate && !isFiltered && <Button onClick={() => setAdding(true)}>Add a customer</Button>}
                </EmptyState>
              )
            }
            return (
              <>
                <DataTable
                  label="Customers"
                  isPaged
                  rows={rows}
                  keyOf={({ id }) => id}
                  onOpen={({ id }) =>
                    void navigate({ to: '/operator/customers/$customerId', params: { customerId: id } })
                  }
                  columns={[
                    {
                      title: 'Customer',
                      place: 'name',
                      cell: ({ id, email }) => (
                        <Link to="/operator/customers/$customerId" params={{ customerId: id }}>
                          {email ?? 'deleted'}
                        </Link>
                      ),
                    },
                    { title: 'Tier', cell: ({ tier }) => tier },
                    {
                      title: 'State',
                      cell: ({ state: each }) => (
                        <State state={each === 'active' ? 'ok' : each === 'paused' ? 'warn' : 'off'}>{each}</State>
                      ),
                    },
                    {
                      title: 'Requests, 30 days',
                      align: 'right',
                      isLabelled: true,
                      cell: ({ requests_30d }) => countText(requests_30d),
                    },
                    {
                      title: 'Spent, 30 days',
                      align: 'right',
                      isLabelled: true,
                      cell: ({ spent_30d_usd }) => <Balance usd={spent_30d_usd} />,
                    },
                    { title: 'People', align: 'right', place: 'hidden', cell: ({ people }) => countText(people) },
                    { title: 'Keys', align: 'right', place: 'hidden', cell: ({ keys }) => countText(keys) },
                    {
                      title: 'Balance',
                      align: 'right',
                      place: 'figure',
                      isLabelled: true,
                      cell: ({ balance_usd }) => <Balance usd={balance_usd} />,
                    },
                  ]}
                />
                {customers.hasNextPage && (
                  <div className={styles.more}>
                    <Button
                      variant="default"
                      loading={customers.isFetchingNextPage}
                      onClick={() => void customers.fetchNextPage()}
                    >
                      Show more
                    </Button>
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

function NewCustomer({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate()
  const [email, setEmail] = useState('')
  const add = useWrite<void, { id: string }>(() => ({ method: 'POST', path: 'operator/customers', body: { email } }), {
    areas: ['customers'],
    done: `${email} is a customer now.`,
    onDone: ({ id }) => void navigate({ to: '/operator/customers/$customerId', params: { customerId: id } }),
    showsError: true,
  })
  return (
    <FormDialog title="Add a customer" action="Add" sending={add} onSubmit={() => add.mutate()} onClose={onClose}>
      <TextInput
        label="Billing address"
        description="The customer gets the signup credit. Invite people afterwards."
        type="email"
        required
        value={email}
        onChange={event => setEmail(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  )
}
