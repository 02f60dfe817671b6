import { Button, Select } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { MemberShown } from '#api/people.ts'
import { invitesQuery, peopleQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Invitations } from '../../parts/Invitations.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { When } from '../../parts/When.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { MemberLimit, MemberLimitDialog } from './MemberLimit.tsx'

const roles = [
  { value: 'owner', label: 'Owner: everything' },
  { value: 'developer', label: 'Developer: usage, keys, alerts' },
  { value: 'billing', label: 'Billing: usage, credits' },
  { value: 'viewer', label: 'Viewer: usage' },
]

/** The members of the customer, and invitations. */
export function People() {
  const customerId = useCustomerId()
  const { mayPeople } = useRights()
  if (!mayPeople) {
    return (
      <Panel title="People">
        <EmptyState text="Only owners of this customer see its members." />
      </Panel>
    )
  }
  return (
    <>
      <Members />
      <Invitations
        path={`customers/${customerId}/invites`}
        query={invitesQuery(customerId)}
        area="people"
        roles={roles}
      />
    </>
  )
}

function Members() {
  const customerId = useCustomerId()
  const people = useQuery(peopleQuery(customerId))
  const [removed, setRemoved] = useState<MemberShown | null>(null)
  const [limited, setLimited] = useState<MemberShown | null>(null)
  const change = useWrite<{ id: string; role: string }>(
    ({ id, role }) => ({ method: 'PATCH', path: `customers/${customerId}/people/${id}`, body: { role } }),
    { areas: ['people', 'session'], done: 'The role is changed.' },
  )
  const remove = useWrite<MemberShown>(
    ({ id }) => ({ method: 'DELETE', path: `customers/${customerId}/people/${id}` }),
    {
      areas: ['people'],
      done: (_, { email }) => `${email} is no member any more.`,
      onDone: () => setRemoved(null),
    },
  )
  return (
    <Panel title="Members">
      <Loaded query={people} height={120}>
        {({ data }) => (
          <DataTable
            label="Members"
            rows={data}
            keyOf={({ id }) => id}
            columns={[
              {
                title: 'Person',
                place: 'name',
                cell: ({ name, email, is_you }) =>
                  `${[name, email].filter(Boolean).join(', ')}${is_you ? ' (you)' : ''}`,
              },
              {
                title: 'Role',
                cell: ({ id, email, role }) => (
                  <Select
                    aria-label={`Role of ${email}`}
                    data={roles}
                    value={role}
                    onChange={value => value !== null && value !== role && change.mutate({ id, role: value })}
                  />
                ),
              },
              {
                title: 'Spend limit',
                cell: member => <MemberLimit member={member} onSet={() => setLimited(member)} />,
              },
              { title: 'Joined', isLabelled: true, cell: ({ joined_at }) => <When at={joined_at} /> },
              {
                title: 'Last seen',
                isLabelled: true,
                cell: ({ last_seen_at: at }) => (at === null ? 'not signed in' : <When at={at} form="distance" />),
              },
              {
                title: '',
                align: 'right',
                cell: member =>
                  !member.is_you && (
                    <Button variant="default" size="compact-sm" onClick={() => setRemoved(member)}>
                      Remove
                    </Button>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
      {limited !== null && <MemberLimitDialog member={limited} onClose={() => setLimited(null)} />}
      <ConfirmDialog
        isOpen={removed !== null}
        title={`Remove ${removed?.email}?`}
        action="Remove"
        isBusy={remove.isPending}
        onConfirm={() => remove.mutate(removed!)}
        onClose={() => setRemoved(null)}
      >
        <p>
          The person sees nothing of this customer any more. Keys that the person made go on working: delete them apart.
        </p>
      </ConfirmDialog>
    </Panel>
  )
}
