import { t } from '@lingui/core/macro'
import { Button, Select } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { MemberShown, RemovedMember } from '#api/people.ts'
import { invitesQuery, memberKeysQuery, peopleQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Invitations } from '../../parts/Invitations.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { personColumn } from '../../parts/person-column.ts'
import { RoleSelect } from '../../parts/RoleSelect.tsx'
import { When } from '../../parts/When.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { MemberLimit, MemberLimitDialog } from './MemberLimit.tsx'

const roles = [
  { value: 'owner', label: t`Owner: everything` },
  { value: 'developer', label: t`Developer: usage, keys, alerts` },
  { value: 'billing', label: t`Billing: usage, credits` },
  { value: 'viewer', label: t`Viewer: usage` },
]

const fates = [
  { value: 'revoke', label: t`They end within two seconds` },
  { value: 'hand_over', label: t`They go on, as yours` },
]

/** The members of the customer, and invitations. */
export function People() {
  const customerId = useCustomerId()
  const { mayPeople } = useRights()
  if (!mayPeople) {
    return (
      <Panel title={t`People`}>
        <EmptyState text={t`Only owners of this customer see its members.`} />
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
    { areas: ['people', 'session'], done: t`The role is changed.` },
  )
  return (
    <Panel title={t`Members`}>
      <Loaded query={people} height={120}>
        {({ data }) => (
          <DataTable
            label={t`Members`}
            rows={data}
            keyOf={({ id }) => id}
            columns={[
              personColumn,
              {
                title: t`Role`,
                cell: ({ id, email, role }) => (
                  <RoleSelect
                    email={email}
                    role={role}
                    roles={roles}
                    onChange={value => change.mutate({ id, role: value })}
                  />
                ),
                sortBy: ({ role }) => role,
              },
              {
                title: t`Spend limit`,
                cell: member => <MemberLimit member={member} onSet={() => setLimited(member)} />,
              },
              {
                title: t`Joined`,
                cell: ({ joined_at }) => <When at={joined_at} />,
                sortBy: ({ joined_at }) => joined_at,
              },
              {
                title: t`Last seen`,
                cell: ({ last_seen_at: at }) => (at === null ? t`not signed in` : <When at={at} form="distance" />),
                sortBy: ({ last_seen_at }) => last_seen_at,
              },
              {
                title: '',
                align: 'right',
                cell: member =>
                  !member.is_you && (
                    <Button variant="default" size="compact-sm" onClick={() => setRemoved(member)}>{t`Remove`}</Button>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
      {limited !== null && <MemberLimitDialog member={limited} onClose={() => setLimited(null)} />}
      {removed !== null && <RemoveMember member={removed} onClose={() => setRemoved(null)} />}
    </Panel>
  )
}

/** Removes a member, and asks what happens to the keys that the person made. */
function RemoveMember({ member, onClose }: { member: MemberShown; onClose: () => void }) {
  const customerId = useCustomerId()
  const keys = useQuery(memberKeysQuery(customerId, member.id))
  const [fate, setFate] = useState(fates[0]!.value)
  const remove = useWrite<void, RemovedMember>(
    () => ({ method: 'DELETE', path: `customers/${customerId}/people/${member.id}?keys=${fate}` }),
    {
      areas: ['people', 'keys'],
      done: ({ keys_revoked: ended }) =>
        t`${member.email} is no member any more${ended === 0 ? '' : t`, and ${ended} of the person’s keys end`}.`,
      onDone: onClose,
    },
  )
  return (
    <ConfirmDialog
      isOpen
      title={t`Remove ${member.email}?`}
      action={t`Remove`}
      isBusy={remove.isPending}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>{t`The person sees nothing of this customer any more.`}</p>
      <Loaded query={keys} height={60}>
        {({ data }) =>
          data.length === 0 ? (
            <p>{t`The person has made no keys.`}</p>
          ) : (
            <>
              <p>{t`The person made these keys:`}</p>
              <ul>
                {data.map(({ id, name, hint }) => (
                  <li key={id}>
                    {name} <code>{hint}</code>
                  </li>
                ))}
              </ul>
              <Select
                label={t`What happens to them`}
                description={t`The person still knows keys that go on. Those that may manage keys always end.`}
                data={fates}
                value={fate}
                onChange={value => setFate(value ?? fate)}
              />
            </>
          )
        }
      </Loaded>
    </ConfirmDialog>
  )
}
