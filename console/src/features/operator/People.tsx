import { Button, Select } from '@mantine/core'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import type { PersonShown } from '#api/operator/people.ts'
import { fromGateway } from '../../api/gateway-link.ts'
import { operatorInvitesQuery, operatorPeopleQuery, roleChangesQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { countText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Invitations } from '../../parts/Invitations.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { personColumn } from '../../parts/person-column.ts'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import styles from './operator.module.css'
import { ReasonDialog } from './ReasonDialog.tsx'
import { SearchFilters, useSearchText } from './SearchFilters.tsx'
import { useMayOperate } from './use-may-operate.ts'

const OperatorKeys = lazy(fromGateway(async () => ({ default: (await import('./OperatorKeys.tsx')).OperatorKeys })))

const roles = [
  { value: '', label: 'No role' },
  { value: 'auditor', label: 'Auditor: reads' },
  { value: 'operator', label: 'Operator: everything' },
]
const invitedRoles = roles.filter(({ value }) => value !== '')
const roleText = (role: string | null) => role ?? 'no role'

/** People of the installation: blocked or not, and the operators and auditors. */
export function People() {
  const mayOperate = useMayOperate()
  const { text, setText, search } = useSearchText()
  const [show, setShow] = useState('all')
  const [blocked, setBlocked] = useState<PersonShown | null>(null)
  const people = useInfiniteQuery(operatorPeopleQuery({ ...(search !== '' && { search }), show }))
  const unblock = useWrite<PersonShown>(
    ({ id }) => ({ method: 'POST', path: `operator/people/${id}/unblock`, body: {} }),
    {
      areas: ['operator-people'],
      done: (_, { email }) => `${email} may sign in again.`,
    },
  )
  const setRole = useSetRole()
  return (
    <Page title="People">
      <RoleChanges />
      <Joined />
      <Invitations
        path="operator/invites"
        query={operatorInvitesQuery}
        area="operator-people"
        roles={invitedRoles}
        firstRole="operator"
        mayChange={mayOperate}
        empty="No invitation is open. Invite the people who run this gateway with you, or who only read."
      />
      <SearchFilters
        search={{ text, setText, description: 'E-mail address or name' }}
        choice={{
          label: 'People',
          description: 'Which people',
          data: [
            { value: 'all', label: 'All' },
            { value: 'roles', label: 'Operators and auditors' },
            { value: 'blocked', label: 'Blocked' },
          ],
          value: show,
          onChange: value => setShow(value ?? 'all'),
        }}
      />
      <Panel>
        <Loaded query={people} height={400}>
          {({ pages }) => {
            const rows = pages.flatMap(({ data }) => data)
            if (rows.length === 0) return <EmptyState text="Nobody matches these filters." />
            return (
              <>
                <DataTable
                  label="People"
                  isPaged
                  rows={rows}
                  keyOf={({ id }) => id}
                  columns={[
                    personColumn,
                    {
                      title: 'State',
                      cell: ({ is_blocked, is_verified }) => (
                        <State state={is_blocked ? 'off' : is_verified ? 'ok' : 'warn'}>
                          {is_blocked ? 'blocked' : is_verified ? 'proved address' : 'unproved address'}
                        </State>
                      ),
                    },
                    {
                      title: 'Second factor',
                      place: 'hidden',
                      cell: ({ has_second_factor }) => (has_second_factor ? 'yes' : 'no'),
                    },
                    {
                      title: 'Last seen',
                      isLabelled: true,
                      cell: ({ last_seen_at: at }) =>
                        at === null ? 'not signed in' : <When at={at} form="distance" />,
                    },
                    {
                      title: 'Customers',
                      align: 'right',
                      place: 'hidden',
                      cell: ({ customers }) => countText(customers),
                    },
                    { title: 'Hosters', align: 'right', place: 'hidden', cell: ({ hosters }) => countText(hosters) },
                    { title: 'Keys', align: 'right', place: 'hidden', cell: ({ keys }) => countText(keys) },
                    {
                      title: 'Role',
                      cell: ({ id, email, role }) =>
                        mayOperate ? (
                          <Select
                            aria-label={`Role of ${email}`}
                            data={roles}
                            value={role ?? ''}
                            onChange={value =>
                              value !== null && value !== (role ?? '') && setRole.mutate({ id, role: value || null })
                            }
                          />
                        ) : (
                          roleText(role)
                        ),
                    },
                    {
                      title: '',
                      align: 'right',
                      cell: person =>
                        mayOperate &&
                        person.role === null && (
                          <Button
                            variant="default"
                            size="compact-sm"
                            onClick={() => (person.is_blocked ? unblock.mutate(person) : setBlocked(person))}
                          >
                            {person.is_blocked ? 'Unblock' : 'Block'}
                          </Button>
                        ),
                    },
                  ]}
                />
                {people.hasNextPage && (
                  <div className={styles.more}>
                    <Button
                      variant="default"
                      loading={people.isFetchingNextPage}
                      onClick={() => void people.fetchNextPage()}
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
      <Suspense>
        <OperatorKeys />
      </Suspense>
      {blocked !== null && (
        <ReasonDialog
          title={`Block ${blocked.email}?`}
          action="Block"
          isDanger
          reader="The audit log keeps it."
          send={reason => ({ method: 'POST', path: `operator/people/${blocked.id}/block`, body: { reason } })}
          done={`${blocked.email} is blocked.`}
          onClose={() => setBlocked(null)}
        >
          The sessions end, and the keys that the person made stop within two seconds, also those of agents. Customers
          and hosters stay as they are.
        </ReasonDialog>
      )}
    </Page>
  )
}

function useSetRole() {
  return useWrite<{ id: string; role: string | null }, { state: string }>(
    ({ id, role }) => ({ method: 'POST', path: `operator/people/${id}/role`, body: { role } }),
    {
      areas: ['operator-people', 'session'],
      done: ({ state }) => (state === 'waiting' ? 'Another operator must approve this.' : 'The role is changed.'),
    },
  )
}

/** People that came by an invitation of operators and do not have the role yet. */
function Joined() {
  const mayOperate = useMayOperate()
  const people = useInfiniteQuery(operatorPeopleQuery({ show: 'invited' }))
  const changes = useQuery(roleChangesQuery)
  const setRole = useSetRole()
  const dismiss = useWrite<{ id: string; email: string }>(
    ({ id }) => ({ method: 'DELETE', path: `operator/people/${id}/invite` }),
    { areas: ['operator-people'], done: (_, { email }) => `The invitation of ${email} is taken back.` },
  )
  const waitingFor = ({ email, invited_role: role }: PersonShown) =>
    changes.data?.data.find(change => change.email === email && change.role === role)
  const rows = people.data?.pages.flatMap(({ data }) => data) ?? []
  if (rows.length === 0) return null
  return (
    <Panel title="Invited people without their role">
      <p className={styles.hint}>
        Check that it is the person you invited: whoever had the link could join. The person needs a passkey or an
        authenticator app first. After 14 days, invite the person again.
      </p>
      <DataTable
        label="Invited people without their role"
        rows={rows}
        keyOf={({ id }) => id}
        columns={[
          personColumn,
          { title: 'Invited as', isLabelled: true, cell: ({ invited_role: role }) => roleText(role) },
          { title: 'Invited by', isLabelled: true, cell: ({ invited_by: by }) => by ?? 'nobody here' },
          {
            title: 'Joined',
            isLabelled: true,
            cell: ({ invited_at: at }) => at !== null && <When at={at} form="distance" />,
          },
          {
            title: 'Address',
            isLabelled: true,
            cell: ({ is_verified: is }) => (
              <State state={is ? 'ok' : 'warn'}>{is ? 'proved address' : 'unproved address'}</State>
            ),
          },
          {
            title: 'Second factor',
            isLabelled: true,
            cell: ({ has_second_factor: has }) => <State state={has ? 'ok' : 'warn'}>{has ? 'yes' : 'not yet'}</State>,
          },
          {
            title: '',
            align: 'right',
            place: 'actions',
            cell: person => {
              const { id, email, invited_role: role, has_second_factor: has } = person
              const change = waitingFor(person)
              return (
                mayOperate && (
                  <div className={styles.buttons}>
                    {change?.is_own ? (
                      <State state="warn">waits for another operator</State>
                    ) : (
                      <Button
                        size="compact-sm"
                        disabled={!has}
                        loading={setRole.isPending}
                        onClick={() => setRole.mutate({ id, role })}
                      >
                        {change === undefined ? 'Give the role' : 'Approve the role'}
                        <span className="visually-hidden"> to {email}</span>
                      </Button>
                    )}
                    <Button
                      size="compact-sm"
                      variant="default"
                      loading={dismiss.isPending}
                      onClick={() => dismiss.mutate(person)}
                    >
                      Dismiss<span className="visually-hidden"> {email}</span>
                    </Button>
                  </div>
                )
              )
            },
          },
        ]}
      />
    </Panel>
  )
}

/** Changes of roles that wait for a second operator. */
function RoleChanges() {
  const mayOperate = useMayOperate()
  const changes = useQuery(roleChangesQuery)
  const decide = useWrite<{ id: string; decision: 'approve' | 'reject' }>(
    ({ id, decision }) => ({ method: 'POST', path: `operator/role-changes/${id}/${decision}`, body: {} }),
    {
      areas: ['operator-people', 'session'],
      done: (_, { decision }) => (decision === 'approve' ? 'The role is changed.' : 'The role stays as it is.'),
    },
  )
  const waiting = changes.data?.data ?? []
  if (waiting.length === 0) return null
  return (
    <Panel title="Roles that wait for a second operator">
      <DataTable
        label="Roles that wait for a second operator"
        rows={waiting}
        keyOf={({ id }) => id}
        columns={[
          { title: 'Person', place: 'name', cell: ({ email }) => email },
          { title: 'Role', cell: ({ from, role }) => `${roleText(from)} to ${roleText(role)}` },
          { title: 'Asked by', isLabelled: true, cell: ({ requested_by }) => requested_by ?? 'nobody here' },
          { title: 'Time', cell: ({ requested_at }) => <When at={requested_at} /> },
          {
            title: '',
            align: 'right',
            cell: ({ id, is_own }) =>
              mayOperate && (
                <div className={styles.buttons}>
                  {!is_own && (
                    <Button size="compact-sm" onClick={() => decide.mutate({ id, decision: 'approve' })}>
                      Approve
                    </Button>
                  )}
                  <Button size="compact-sm" variant="default" onClick={() => decide.mutate({ id, decision: 'reject' })}>
                    {is_own ? 'Withdraw' : 'Reject'}
                  </Button>
                </div>
              ),
          },
        ]}
      />
    </Panel>
  )
}
