import { Modal, TextInput } from '@mantine/core'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { NavItem } from './Shell.tsx'
import styles from './shell.module.css'

const REQUEST_ID = /^(?:[a-z]+[-_])?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i

/** Ctrl+K: finds a page by its name, or a request by its id. */
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
  const open = async () => {
    if (requestId !== undefined && customerId !== undefined) {
      await navigate({ to: '/c/$customerId/activity/$requestId', params: { customerId, requestId } } as never)
    } else if (found[0] !== undefined) await navigate(found[0].link as never)
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
          label="A page, or the id of a request"
          value={text}
          onChange={event => setText(event.currentTarget.value)}
          data-autofocus
        />
      </form>
      <div className={styles.nav} style={{ marginTop: 12 }}>
        {requestId === undefined ? (
          found.map(({ name, icon, link }) => (
            <Link key={name} {...link} className={styles.navLink}>
              {icon}
              {name}
            </Link>
          ))
        ) : (
          <p>Press Enter to open the receipt of this request.</p>
        )}
        {requestId === undefined && found.length === 0 && <p>No page has this name.</p>}
      </div>
    </Modal>
  )
}
