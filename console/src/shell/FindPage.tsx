import { Modal, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { keyNamesQuery } from '../api/queries.ts'
import { KeyIcon } from '../parts/icons.tsx'
import { matchesKey } from './matches-key.ts'
import type { NavItem } from './nav-items.tsx'
import styles from './shell.module.css'
import { useRights } from './use-session.ts'

const REQUEST_ID = /^(?:[a-z]+[-_])?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i

const KEYS_MAX = 8

/** Ctrl+K: finds a page by its name, a request by its id, and a key by its name or the key itself. */
export function FindPage({
  items,
  isOpen,
  onClose,
}: {
  items: readonly NavItem[]
  isOpen: boolean
  onClose: () => void
}) {
  const [text, setText] = useState('')
  const { customerId } = useParams({ strict: false })
  const navigate = useNavigate()
  const close = () => {
    setText('')
    onClose()
  }
  const requestId = REQUEST_ID.exec(text.trim())?.[1]
  const found = items.filter(({ name }) => name.toLowerCase().includes(text.trim().toLowerCase()))
  const { seesKeys } = useRights()
  const keys = useQuery({ ...keyNamesQuery(customerId ?? ''), enabled: isOpen && seesKeys && customerId !== undefined })
  const matching = keys.data?.data.filter(key => matchesKey(key, text.trim())).slice(0, KEYS_MAX) ?? []
  const foundKeys = matching.flatMap(({ id, name, hint }) =>
    customerId === undefined
      ? []
      : [{ id, name, hint, link: { to: '/c/$customerId/keys', params: { customerId }, search: { key: id } } as const }],
  )
  const open = async () => {
    if (requestId !== undefined && customerId !== undefined) {
      await navigate({ to: '/c/$customerId/activity/$requestId', params: { customerId, requestId } })
    } else if (found[0] !== undefined) await navigate({ to: found[0].to })
    else if (foundKeys[0] !== undefined) await navigate(foundKeys[0].link)
    else return
    close()
  }
  return (
    <Modal opened={isOpen} onClose={close} title="Find">
      <form
        onSubmit={event => {
          event.preventDefault()
          void open()
        }}
      >
        <TextInput
          label={customerId === undefined ? 'A page' : 'A page, a key, or the id of a request'}
          value={text}
          onChange={event => setText(event.currentTarget.value)}
          data-autofocus
        />
      </form>
      <div className={styles.nav} style={{ marginTop: 12 }}>
        {requestId === undefined ? (
          found.map(({ name, icon, to }) => (
            <Link key={name} to={to} className={styles.navLink}>
              {icon}
              {name}
            </Link>
          ))
        ) : (
          <p>Press Enter to open the receipt of this request.</p>
        )}
        {foundKeys.map(({ id, name, hint, link }) => (
          <Link key={id} {...link} className={styles.navLink}>
            <KeyIcon />
            {name} <code>{hint}</code>
          </Link>
        ))}
        {requestId === undefined && found.length + foundKeys.length === 0 && <p>Nothing has this name.</p>}
      </div>
    </Modal>
  )
}
