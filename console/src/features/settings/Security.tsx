import { t } from '@lingui/core/macro'
import { Button, PasswordInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { factorsQuery, sessionQuery, sessionsQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { When } from '../../parts/When.tsx'
import { browserName } from './browser-name.ts'
import { Factors } from './Factors.tsx'
import { Services } from './Services.tsx'
import styles from './settings.module.css'

/** How the person signs in, and where. */
export function Security() {
  return (
    <>
      <Factors />
      <Services />
      <Password />
      <Sessions />
    </>
  )
}

function Sessions() {
  const sessions = useQuery(sessionsQuery)
  const end = useWrite<string>(id => ({ method: 'DELETE', path: `sessions/${id}` }), {
    areas: ['sessions'],
    done: t`The session has ended.`,
  })
  const endOthers = useWrite(() => ({ method: 'POST', path: 'sessions/end-others' }), {
    areas: ['sessions'],
    done: t`All other sessions have ended.`,
  })
  const hasOthers = (sessions.data?.data.length ?? 0) > 1
  return (
    <Panel
      title={t`Where you are signed in`}
      aside={
        hasOthers && (
          <Button
            variant="subtle"
            size="compact-sm"
            loading={endOthers.isPending}
            onClick={() => endOthers.mutate()}
          >{t`End all others`}</Button>
        )
      }
    >
      <Loaded query={sessions} height={80}>
        {({ data }) => (
          <DataTable
            label={t`Sessions`}
            rows={data}
            keyOf={({ id }) => id}
            columns={[
              {
                title: t`Browser`,
                place: 'name',
                cell: ({ user_agent, is_current }) => `${browserName(user_agent)}${is_current ? t` (this one)` : ''}`,
                sortBy: ({ user_agent }) => browserName(user_agent),
              },
              { title: t`Address`, cell: ({ address }) => address, sortBy: ({ address }) => address },
              {
                title: t`Signed in`,
                cell: ({ created_at }) => <When at={created_at} />,
                sortBy: ({ created_at }) => created_at,
              },
              {
                title: t`Last used`,
                cell: ({ last_seen_at }) => <When at={last_seen_at} form="distance" />,
                sortBy: ({ last_seen_at }) => last_seen_at,
              },
              {
                title: '',
                align: 'right',
                cell: ({ id, is_current }) =>
                  !is_current && (
                    <Button variant="default" size="compact-sm" onClick={() => end.mutate(id)}>{t`End`}</Button>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
    </Panel>
  )
}

function Password() {
  const client = useQueryClient()
  const hasPassword = useQuery(factorsQuery).data?.has_password !== false
  const [current, setCurrent] = useState('')
  const [next, setNext] = useState('')
  const change = useWrite(
    () => ({
      method: 'POST',
      path: 'password',
      body: { ...(hasPassword && { current_password: current }), new_password: next },
    }),
    {
      areas: ['sessions', 'factors'],
      done: t`The password is changed. All other sessions have ended.`,
      onDone() {
        setCurrent('')
        setNext('')
        void client.invalidateQueries({ queryKey: sessionQuery.queryKey })
      },
      showsError: true,
    },
  )
  return (
    <Panel title={t`Password`}>
      <form
        className={styles.form}
        onSubmit={event => {
          event.preventDefault()
          change.mutate()
        }}
      >
        {hasPassword ? (
          <PasswordInput
            label={t`Current password`}
            autoComplete="current-password"
            required
            value={current}
            onChange={event => setCurrent(event.currentTarget.value)}
          />
        ) : (
          <p className={styles.hint}>{t`You have no password yet.`}</p>
        )}
        <PasswordInput
          label={t`New password`}
          description={t`At least 12 characters, such as four words.`}
          autoComplete="new-password"
          required
          value={next}
          onChange={event => setNext(event.currentTarget.value)}
        />
        <FormProblem error={change.error} />
        <div>
          <Button type="submit" loading={change.isPending}>
            {hasPassword ? t`Change the password` : t`Set a password`}
          </Button>
        </div>
      </form>
    </Panel>
  )
}
