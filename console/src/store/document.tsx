import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError, request, storePath } from '../api';
import { Diff } from '../diff';
import { useAction } from '../hooks';
import { indented, Json, jsonError } from '../json';
import { link } from '../place';
import { Confirm, ErrorBox } from '../ui';
import { readDocument, type Document } from './nodes';

interface EditorProps {
  label: string;
  text: string;
  save: string;
  onSave: (text: string) => Promise<void>;
  onCancel: () => void;
}

/** An entry for JSON that says at once what is wrong. */
export function JsonEditor({ label, text: initial, save, onSave, onCancel }: EditorProps): JSX.Element {
  const [text, setText] = useState(initial);
  const wrong = jsonError(text);
  const saving = useAction(() => onSave(text));
  return (
    <div class="editor">
      <textarea
        aria-label={label}
        aria-invalid={wrong !== undefined}
        spellcheck={false}
        rows={Math.min(24, Math.max(6, text.split('\n').length + 1))}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && wrong === undefined) saving.run();
          if (event.key === 'Escape' && text === initial) onCancel();
        }}
      />
      <p class={wrong === undefined ? 'quiet' : 'bad'} role="status">
        {wrong === undefined ? 'JSON' : wrong}
      </p>
      <ErrorBox error={saving.error} />
      <div class="actions">
        <button type="button" class="primary" disabled={wrong !== undefined || saving.busy} onClick={() => saving.run()}>
          {save}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </div>
  );
}

/** What somebody else has written meanwhile, beside one's own. */
function Conflict({ mine, theirs, onKeep, onTake }: { mine: string; theirs: Document; onKeep: () => Promise<void>; onTake: () => void }): JSX.Element {
  const keep = useAction(onKeep);
  return (
    <div class="panel" role="alert">
      <h3>Somebody has changed this document since you opened it</h3>
      <p>The lines with − are theirs, those with + are yours. Nothing of yours is written yet.</p>
      <Diff before={indented(theirs.text)} after={indented(mine)} />
      <ErrorBox error={keep.error} />
      <div class="actions">
        <button type="button" class="danger" disabled={keep.busy} onClick={() => keep.run()}>
          Replace theirs with mine
        </button>
        <button type="button" onClick={onTake}>
          Keep theirs
        </button>
      </div>
    </div>
  );
}

interface DocumentProps {
  path: readonly string[];
  document: Document;
  edit: boolean;
  onChange: () => void;
}

export function DocumentView({ path, document, edit, onChange }: DocumentProps): JSX.Element {
  /** The document as it was when editing began: writes name its tag. */
  const [editing, setEditing] = useState<Document | undefined>(undefined);
  const [conflict, setConflict] = useState<{ mine: string; theirs: Document } | undefined>(undefined);
  const done = (): void => {
    setEditing(undefined);
    setConflict(undefined);
    onChange();
  };
  const put = async (mine: string, etag: string): Promise<void> => {
    try {
      await request('PUT', storePath(path), { body: mine, headers: { 'if-match': etag } });
      done();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 412) throw error;
      setConflict({ mine, theirs: await readDocument(path) });
    }
  };
  const remove = useAction(async () => {
    await request('DELETE', storePath(path), { headers: { 'if-match': document.etag } });
    location.hash = link(['store', ...path.slice(0, -1)]);
  });
  if (conflict) return <Conflict {...conflict} onKeep={() => put(conflict.mine, conflict.theirs.etag)} onTake={done} />;
  if (editing) return <JsonEditor label="Document" text={indented(editing.text)} save="Save" onSave={(text) => put(text, editing.etag)} onCancel={() => setEditing(undefined)} />;
  return (
    <>
      {edit && (
        <div class="actions">
          <button type="button" onClick={() => setEditing(document)}>
            Edit
          </button>
          <Confirm label="Delete" confirm="Delete it" action={remove} question={`${path.join('/')} and everything below it will be gone.`} />
        </div>
      )}
      <ErrorBox error={remove.error} />
      <Json text={document.text} />
      <p class="quiet">
        ETag {document.etag}
        {document.ttl && `, expires in ${document.ttl.replace('ms', ' ms')}`}
      </p>
    </>
  );
}

/** A new child of a node: under a key, or under the next number. */
export function NewChild({ path, onChange }: { path: readonly string[]; onChange: (key: string) => void }): JSX.Element {
  const [open, setOpen] = useState(false);
  const [key, setKey] = useState('');
  if (!open)
    return (
      <button type="button" onClick={() => setOpen(true)}>
        New child
      </button>
    );
  const create = async (text: string): Promise<void> => {
    if (key === '') {
      const { text: made } = await request('POST', storePath(path), { body: text });
      onChange(String((JSON.parse(made) as { id: number }).id));
    } else {
      await request('PUT', storePath([...path, key]), { body: text, headers: { 'if-none-match': '*' } });
      onChange(key);
    }
    setOpen(false);
  };
  return (
    <div class="panel">
      <label class="stacked">
        Key
        <input value={key} placeholder="the next number" onInput={({ currentTarget }) => setKey(currentTarget.value)} />
      </label>
      <JsonEditor label="Document of the new child" text="{}" save="Create" onSave={create} onCancel={() => setOpen(false)} />
    </div>
  );
}
