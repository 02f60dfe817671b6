import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
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
import { codeText } from '../../texts/code-text.ts'
import styles from './operator.module.css'
import { SearchFilters, useSearchText } from './SearchFilters.tsx'
import { useMayOperate } from './use-may-operate.ts'

const OperatorKeys = lazy(fromGateway(async () => ({ default: (await import('./OperatorKeys.tsx')).OperatorKeys })))

const ReasonDialog = lazy(fromGateway(async () => ({ default: (await import('./ReasonDialog.tsx')).ReasonDialog })))

const PersonDataDialog = lazy(
  fromGateway(async () => ({ default: (await import('./PersonalData.tsx')).PersonDataDialog })),
)

const roles = [
  { value: '', label: t`No role` },
  { value: 'auditor', label: t`Auditor: reads` },
  { value: 'operator', label: t`Operator: everything` },
]
const invitedRoles = roles.filter(({ value }) => value !== '')
const roleText = (role: string | null) => (role === null ? t`no role` : codeText(role))

/** People of the installation: blocked or not, and the operators and auditors. */
export function People() {
  const mayOperate = useMayOperate()
  const { text, setText, search } = useSearchText()
  const [show, setShow] = useState('all')
  const [blocked, setBlocked] = useState<PersonShown | null>(null)
  const [shown, setShown] = useState<PersonShown | null>(null)
  const people = useInfiniteQuery(operatorPeopleQuery({ ...(search !== '' && { search }), show }))
  const unblock = useWrite<PersonShown>(
    ({ id }) => ({ method: 'POST', path: `operator/people/${id}/unblock`, body: {} }),
    {
      areas: ['operator-people'],
      done: (_, { email }) => t`${email} may sign in again.`,
    },
  )
  const setRole = useSetRole()
  return (
    <Page title={t`People`}>
      <RoleChanges />
      <Joined />
      <Invitations
        path="operator/invites"
        query={operatorInvitesQuery}
        area="operator-people"
        roles={invitedRoles}
        firstRole="operator"
        mayChange={mayOperate}
        empty={t`No invitation is open. Invite the people who run this gateway with you, or who only read.`}
      />
      <SearchFilters
        search={{ text, setText, description: t`E-mail address or name` }}
        choice={{
          label: t`People`,
          description: t`Which people`,
          data: [
            { value: 'all', label: t`All` },
            { value: 'roles', label: t`Operators and auditors` },
            { value: 'blocked', label: t`Blocked` },
          ],
          value: show,
          onChange: value => setShow(value ?? 'all'),
        }}
      />
      <Panel>
        <Loaded query={people} height={400}>
          {({ pages }) => {
            const rows = pages.flatMap(({ data }) => data)
            if (rows.length === 0) return <EmptyState text={t`Nobody matches these filters.`} />
            return (
              <>
                <DataTable
                  label={t`People`}
                  hasMore={people.hasNextPage}
                  rows={rows}
                  keyOf={({ id }) => id}
                  columns={[
                    personColumn,
                    {
                      title: t`State`,
                      cell: ({ is_blocked, is_verified }) => (
                        <State state={is_blocked ? 'off' : is_verified ? 'ok' : 'warn'}>
                          {is_blocked ? t`blocked` : is_verified ? t`proved address` : t`unproved address`}
                        </State>
                      ),
                    },
                    {
                      title: t`Second factor`,
                      place: 'hidden',
                      cell: ({ has_second_factor }) => (has_second_factor ? t`yes` : t`no`),
                    },
                    {
                      title: t`Last seen`,
                      cell: ({ last_seen_at: at }) =>
                        at === null ? t`not signed in` : <When at={at} form="distance" />,
                      sortBy: ({ last_seen_at }) => last_seen_at,
                    },
                    {
                      title: t`Customers`,
                      align: 'right',
                      place: 'hidden',
                      cell: ({ customers }) => countText(customers),
                      sortBy: ({ customers }) => customers,
                    },
                    {
                      title: t`Hosters`,
                      align: 'right',
                      place: 'hidden',
                      cell: ({ hosters }) => countText(hosters),
                      sortBy: ({ hosters }) => hosters,
                    },
                    {
                      title: t`Keys`,
                      align: 'right',
                      place: 'hidden',
                      cell: ({ keys }) => countText(keys),
                      sortBy: ({ keys }) => keys,
                    },
                    {
                      title: t`Role`,
                      cell: ({ id, email, role }) =>
                        mayOperate ? (
                          <Select
                            aria-label={t`Role of ${email}`}
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
                      place: 'actions',
                      cell: person =>
                        mayOperate && (
                          <div className={styles.buttons}>
                            <Button variant="default" size="compact-sm" onClick={() => setShown(person)}>
                              <Trans>
                                Data<span className="visually-hidden"> of {person.email}</span>
                              </Trans>
                            </Button>
                            {person.role === null && (
                              <Button
                                variant="default"
                                size="compact-sm"
                                onClick={() => (person.is_blocked ? unblock.mutate(person) : setBlocked(person))}
                              >
                                {person.is_blocked ? t`Unblock` : t`Block`}
                              </Button>
                            )}
                          </div>
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
                    >{t`Show more`}</Button>
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
      {shown !== null && (
        <Suspense>
          <PersonDataDialog person={shown} onClose={() => setShown(null)} />
        </Suspense>
      )}
      {blocked !== null && (
        <Suspense>
          <ReasonDialog
            title={t`Block ${blocked.email}?`}
            action={t`Block`}
            isDanger
            reader={t`The audit log keeps it.`}
            send={reason => ({ method: 'POST', path: `operator/people/${blocked.id}/block`, body: { reason } })}
            done={t`${blocked.email} is blocked.`}
            onClose={() => setBlocked(null)}
          >{t`The sessions end, and the keys that the person made stop within two seconds, also those of agents. Customers and hosters stay as they are.`}</ReasonDialog>
        </Suspense>
      )}
    </Page>
  )
}

function useSetRole() {
  return useWrite<{ id: string; role: string | null }, { state: string }>(
    ({ id, role }) => ({ method: 'POST', path: `operator/people/${id}/role`, body: { role } }),
    {
      areas: ['operator-people', 'session'],
      done: ({ state }) => (state === 'waiting' ? t`Another operator must approve this.` : t`The role is changed.`),
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
    { areas: ['operator-people'], done: (_, { email }) => t`The invitation of ${email} is taken back.` },
  )
  const waitingFor = ({ email, invited_role: role }: PersonShown) =>
    changes.data?.data.find(change => change.email === email && change.role === role)
  const rows = people.data?.pages.flatMap(({ data }) => data) ?? []
  if (rows.length === 0) return null
  return (
    <Panel title={t`Invited people without their role`}>
      <p
        className={styles.hint}
      >{t`Check that it is the person you invited: whoever had the link could join. The person needs a passkey or an authenticator app first. After 14 days, invite the person again.`}</p>
      <DataTable
        label={t`Invited people without their role`}
        rows={rows}
        keyOf={({ id }) => id}
        columns={[
          personColumn,
          {
            title: t`Invited as`,
            cell: ({ invited_role: role }) => roleText(role),
            sortBy: ({ invited_role }) => invited_role,
          },
          { title: t`Invited by`, cell: ({ invited_by: by }) => by ?? t`nobody here` },
          {
            title: t`Joined`,
            cell: ({ invited_at: at }) => at !== null && <When at={at} form="distance" />,
            sortBy: ({ invited_at }) => invited_at,
          },
          {
            title: t`Address`,
            cell: ({ is_verified: is }) => (
              <State state={is ? 'ok' : 'warn'}>{is ? t`proved address` : t`unproved address`}</State>
            ),
          },
          {
            title: t`Second factor`,
            cell: ({ has_second_factor: has }) => (
              <State state={has ? 'ok' : 'warn'}>{has ? t`yes` : t`not yet`}</State>
            ),
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
                      <State state="warn">{t`waits for another operator`}</State>
                    ) : (
                      <Button
                        size="compact-sm"
                        disabled={!has}
                        loading={setRole.isPending}
                        onClick={() => setRole.mutate({ id, role })}
                      >
                        {change === undefined ? t`Give the role` : t`Approve the role`}
                        <span className="visually-hidden">
                          <Trans> to {email}</Trans>
                        </span>
                      </Button>
                    )}
                    <Button
                      size="compact-sm"
                      variant="default"
                      loading={dismiss.isPending}
                      onClick={() => dismiss.mutate(person)}
                    >
                      <Trans>
                        Dismiss<span className="visually-hidden"> {email}</span>
                      </Trans>
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
      done: (_, { decision }) => (decision === 'approve' ? t`The role is changed.` : t`The role stays as it is.`),
    },
  )
  const waiting = changes.data?.data ?? []
  if (waiting.length === 0) return null
  return (
    <Panel title={t`Roles that wait for a second operator`}>
      <DataTable
        label={t`Roles that wait for a second operator`}
        rows={waiting}
        keyOf={({ id }) => id}
        columns={[
          { title: t`Person`, place: 'name', cell: ({ email }) => email, sortBy: ({ email }) => email },
          { title: t`Role`, cell: ({ from, role }) => t`${roleText(from)} to ${roleText(role)}` },
          { title: t`Asked by`, cell: ({ requested_by }) => requested_by ?? t`nobody here` },
          {
            title: t`Time`,
            cell: ({ requested_at }) => <When at={requested_at} />,
            sortBy: ({ requested_at }) => requested_at,
          },
          {
            title: '',
            align: 'right',
            cell: ({ id, is_own }) =>
              mayOperate && (
                <div className={styles.buttons}>
                  {!is_own && (
                    <Button
                      size="compact-sm"
                      onClick={() => decide.mutate({ id, decision: 'approve' })}
                    >{t`Approve`}</Button>
                  )}
                  <Button size="compact-sm" variant="default" onClick={() => decide.mutate({ id, decision: 'reject' })}>
                    {is_own ? t`Withdraw` : t`Reject`}
                  </Button>
                </div>
              ),
          },
        ]}
      />
    </Panel>
  )
}
